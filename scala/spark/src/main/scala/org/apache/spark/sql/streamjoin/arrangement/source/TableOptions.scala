package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementMeta
import org.apache.spark.sql.streamjoin.base.OptionValues.rejected
import org.apache.spark.sql.types.{MetadataBuilder, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * How an arrangement is looked up.
 *
 * @param options
 *   options of the relation in the query
 * @param table
 *   the relation's table, if there is a relation
 */
final private[streamjoin] case class TableOptions(options: ArrangementOptions)(
    table: Option[ArrangementTable]
) {
  import TableOptions._

  /** Whether to look up the version before the newest. */
  val isPrevious: Boolean = options.text(AsOf).exists {
    case Previous => true
    case Current => false
    case other => throw rejected(AsOf, other, s"$Current or $Previous")
  }

  /** What the table must contain before the query starts. */
  val atLeast: Option[AtLeast] = options.text(AtLeastOption).map {
    case CaughtUpValue => AtLeast.All
    case number =>
      number.toLongOption
        .filter(_ >= 0)
        .map(AtLeast.Version(_))
        .getOrElse(
          throw rejected(AtLeastOption, number, s"a version, a whole number from 0 on, or \"$CaughtUpValue\"")
        )
  }

  /** The arrangement, as all batches of a query see it. */
  def reference: ArrangementRef =
    table.fold(ArrangementRef(options.root.toString, options.open().current))(_.reference)

  /** How long an unmatched row may still find a match, as written. */
  val rematch: Option[String] = options.text(Rematch)
}

/** What a table must contain before the first row is looked up. */
sealed private[streamjoin] trait AtLeast

private[streamjoin] object AtLeast {
  final case class Version(number: Long) extends AtLeast

  /** All data in the sources of the maintaining query. */
  case object All extends AtLeast
}

private[streamjoin] object TableOptions {

  /**
   * Marks an arrangement as a table that a stream looks up, as opposed to rows that each batch
   * reads.
   */
  val Table = "streamjoin.table"
  val AsOf = "asOf"
  private val AtLeastOption = "atLeast"
  val Rematch = "rematch"

  /** The options that only a table that is looked up has. */
  val ofLookUps: Seq[String] = Seq(AsOf, AtLeastOption, Rematch)

  val Current = "current"
  val Previous = "previous"
  private val CaughtUpValue = "caught up"

  def isTable(options: CaseInsensitiveStringMap): Boolean = options.getBoolean(Table, false)

  private val OfStream = "streamjoin.ofStream"

  /** Whether it is part of a streaming query. */
  def isOfStream(options: CaseInsensitiveStringMap): Boolean = options.getBoolean(OfStream, false)

  def ofStream(options: CaseInsensitiveStringMap): CaseInsensitiveStringMap = {
    val more = new java.util.HashMap[String, String](options.asCaseSensitiveMap)
    more.put(OfStream, "true")
    new CaseInsensitiveStringMap(more)
  }

  /** Metadata of a key column: the names of all columns of the table's primary key. */
  private val Key = "streamjoin.tableKey"

  /** Metadata of a key column: its position in the primary key. */
  private val KeyPlace = "streamjoin.tableKeyPlace"

  /** The columns of a table, with metadata that marks its key, for joins without a condition. */
  def columns(meta: ArrangementMeta): StructType = StructType(meta.schema.map { field =>
    val place = meta.keys.head.indexOf(field.name)
    if (place < 0) field
    else
      field.copy(metadata =
        new MetadataBuilder()
          .putStringArray(Key, meta.keys.head.toArray)
          .putLong(KeyPlace, place.toLong)
          .build()
      )
  })

  /** The current names of the columns of a table's key, if all of them exist. */
  def declaredKey(columns: StructType): Option[Seq[String]] = {
    val marked =
      columns.filter(_.metadata.contains(Key)).sortBy(_.metadata.getLong(KeyPlace)).map { field =>
        (field.name, field.metadata.getLong(KeyPlace), field.metadata.getStringArray(Key).length)
      }
    val isWhole = marked.nonEmpty && marked.map(_._2) == (0L until marked.head._3.toLong)
    Option.when(isWhole)(marked.map(_._1))
  }
}

/** Matches an arrangement that a stream looks up. */
private[streamjoin] object LookedUpTable {
  def unapply(plan: LogicalPlan): Option[(TableOptions, Seq[AttributeReference])] = plan match {
    case scan: DataSourceV2ScanRelation => of(scan.relation, scan.output)
    case relation: DataSourceV2Relation => of(relation, relation.output)
    case _ => None
  }

  private def of(relation: DataSourceV2Relation, output: Seq[AttributeReference]) = relation.table match {
    case table: ArrangementTable if TableOptions.isTable(relation.options) =>
      val options = ArrangementOptions(new CaseInsensitiveStringMap(relation.options))
      Some((TableOptions(options)(Some(table)), output))
    case _ => None
  }
}
