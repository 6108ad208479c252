package org.apache.spark.sql.streamjoin.rules.batch

import java.util.{Collections, LinkedHashMap, Map => JMap, WeakHashMap}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.streamjoin.base.{HadoopConf, OwnExec}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/**
 * Lets the scans of a batch read files as those of the batch before. Spark makes a function that
 * reads a file for each scan of each batch, and broadcasts all of Hadoop's settings with it, which
 * takes a good part of a small batch. Plans without operators of streamjoin stay unchanged.
 *
 * It runs once all rules, also those of other extensions, have decided which scans are Spark's own.
 */
private[streamjoin] object KeepFileReaders extends ColumnarRule {
  override def postColumnarTransitions: Rule[SparkPlan] = Keep

  /**
   * An option without a meaning, so that the new scan differs: a format equals its subclasses, and
   * Spark keeps a node rather than an equal one.
   */
  private val Mark = "streamjoin.keepsReader" -> "true"

  private object Keep extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      if (!plan.exists(_.isInstanceOf[OwnExec])) plan
      else
        plan.transformUp { case scan: FileSourceScanExec =>
          val relation = scan.relation
          FileReaders.keeping(relation.fileFormat).fold(scan) { format =>
            val kept = relation.copy(fileFormat = format, options = relation.options + Mark)(
              relation.sparkSession
            )
            scan.copy(relation = kept)
          }
        }
  }
}

/** The functions that read files, by all that they depend on. */
private[batch] object FileReaders {
  type Reader = PartitionedFile => Iterator[InternalRow]

  /**
   * @param queryConf
   *   settings of the query, whose session is not that of its source
   */
  final case class Scan(
      queryConf: Map[String, String],
      format: Class[_],
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String]
  )

  /** The settings of Hadoop and of a session: another broadcast once they have changed. */
  type Settings = Broadcast[SerializableConfiguration]

  /** As many as are kept for the same settings: a filter may differ from batch to batch. */
  private val Most = 100

  private val bySettings = Collections.synchronizedMap(new WeakHashMap[Settings, JMap[Scan, Reader]])

  def reader(settings: Settings, scan: Scan)(make: => Reader): Reader = {
    val kept = bySettings.computeIfAbsent(
      settings,
      _ =>
        Collections.synchronizedMap(new LinkedHashMap[Scan, Reader](16, 0.75f, true) {
          override def removeEldestEntry(eldest: JMap.Entry[Scan, Reader]): Boolean = size > Most
        })
    )
    Option(kept.get(scan)).getOrElse {
      val made = make
      kept.put(scan, made)
      made
    }
  }

  /** A format of Spark's that keeps its readers; none for others, such as a subclass. */
  def keeping(format: FileFormat): Option[FileFormat] = Option(format.getClass).collect {
    case of if of == classOf[ParquetFileFormat] => new Parquet
    case of if of == classOf[OrcFileFormat] => new Orc
    case of if of == classOf[JsonFileFormat] => new Json
    case of if of == classOf[CSVFileFormat] => new Csv
  }

  sealed private trait Keeping extends FileFormat {
    abstract override def buildReaderWithPartitionValues(
        session: SparkSession,
        dataSchema: StructType,
        partitionSchema: StructType,
        requiredSchema: StructType,
        filters: Seq[Filter],
        options: Map[String, String],
        hadoopConf: Configuration
    ): Reader = {
      val scan = Scan(
        SQLConf.get.getAllConfs,
        getClass,
        dataSchema,
        partitionSchema,
        requiredSchema,
        filters,
        options
      )
      reader(HadoopConf.of(session), scan) {
        super.buildReaderWithPartitionValues(
          session,
          dataSchema,
          partitionSchema,
          requiredSchema,
          filters,
          options,
          hadoopConf
        )
      }
    }
  }

  final private class Parquet extends ParquetFileFormat with Keeping
  final private class Orc extends OrcFileFormat with Keeping
  final private class Json extends JsonFileFormat with Keeping
  final private class Csv extends CSVFileFormat with Keeping
}
