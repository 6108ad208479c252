package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.{Locale, UUID}

import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  ChangeColumns,
  InputKind,
  RowKey
}
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.changes.{Changelog, KafkaPosition, Unavailable}
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Dataset, Row}

/** Turns a DataFrame into an arrangement. */
private[streamjoin] object Arrangements {

  /**
   * A DataFrame that maintains an arrangement once it is written to `format("streamjoin")`.
   *
   * @param keys
   *   columns of each index; the first is the primary key of a changelog
   * @param op
   *   column with the operation of a changelog
   * @param diff
   *   column with the number of copies added, or removed if negative
   * @param time
   *   column that orders the rows of a key across all batches; a row older than the last one is
   *   ignored
   * @param order
   *   column that orders rows with the same time, or all rows without one, such as a position in a
   *   log
   * @param ttl
   *   how long rows are kept after their time
   * @param unavailable
   *   stands for a value that was not sent
   */
  def arrange(
      df: Dataset[Row],
      nameOrPath: String,
      keys: Seq[Seq[String]],
      op: Option[String],
      diff: Option[String],
      time: Option[String],
      order: Option[String] = None,
      ttl: Option[String] = None,
      unavailable: Option[String] = Some(Unavailable.Default)
  ): DataFrame = df.asInstanceOf[ClassicDataset[Row]].sparkSession.withActive {
    if (!df.isStreaming)
      throw StreamJoinErrors.analysis("STREAMJOIN_NOT_A_STREAM.ARRANGE", "call" -> "sj.arrange")
    if (op.isDefined && diff.isDefined) throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.OP_WITH_DIFF")
    if (order.isDefined && op.isEmpty)
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.ORDER_WITHOUT_OP")
    val log = op.map { name =>
      checkOperation(df.schema, name)
      Changelog(df, keys.headOption.getOrElse(Nil), op, time, order, unavailable, "sj.arrange")
    }
    val rows = log.map(changes).orElse(diff.map(updates(df, _, time))).getOrElse(df)
    val position = KafkaPosition.Columns.filter(log.isDefined && rows.columns.contains(_))
    val data = rows.schema.dropRight(position.size + (op ++ diff).size)
    // A later run of the query, or an outer join, may put nulls into any column.
    val schema = StructType(data.map(field => field.copy(metadata = Metadata.empty))).asNullable
    checkNames(schema)
    val input =
      if (op.isDefined) InputKind.Changelog else if (diff.isDefined) InputKind.Updates else InputKind.Appended
    val meta = ArrangementMeta(
      UUID.randomUUID(),
      schema,
      checkedKeys(schema, keys),
      StreamJoinConf.partitions(),
      input,
      time
        .filter(_ => diff.isEmpty)
        .map(name => ordered(schema, log.flatMap(_.timeName).getOrElse(name), "time=", op)),
      order.map(name => ordered(schema, log.flatMap(_.orderName).getOrElse(name), "order=", op)),
      expires = ttl.isDefined
    )
    val traits = log.fold(LogTraits())(LogTraits.of(_, schema, position.nonEmpty))
    val classic = rows.asInstanceOf[ClassicDataset[Row]]
    val root = ArrangementFolder.root(nameOrPath).toString
    val arranged =
      Arrange(root, meta, ttl.map(timeToLive(meta, diff, _)), traits, classic.queryExecution.analyzed)
    ClassicDataset.ofRows(classic.sparkSession, arranged)
  }

  /** How long rows are kept, in microseconds. */
  private def timeToLive(meta: ArrangementMeta, diff: Option[String], ttl: String): Long = {
    if (diff.isDefined)
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.DIFF_WITH_TTL")
    val name = meta.time.getOrElse(
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.TTL_WITHOUT_TIME")
    )
    val dataType = meta.schema(name).dataType
    if (!TimeToLive.canHave(dataType))
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.TTL_TYPE", "column" -> name, "type" -> dataType.sql)
    val length = DurationText.length("sj.arrange", "ttl", ttl)
    if (length <= 0)
      throw DurationText.rejected("sj.arrange", "ttl", ttl, "rows would be removed as soon as they arrive")
    length
  }

  /** The name of a column that orders changes. */
  private def ordered(schema: StructType, name: String, what: String, op: Option[String]): String = {
    val column = columnOf(schema, name, what)
    if (op.isDefined && !RowOrdering.isOrderable(column.dataType))
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGE.TIME_TYPE",
        "argument" -> what,
        "column" -> column.name,
        "type" -> column.dataType.sql
      )
    column.name
  }

  /** The columns of the rows, then the operation, then the position in Kafka if it is known. */
  private def changes(log: Changelog): DataFrame = {
    val op = log.opName.get
    val rest = log.frame.columns.toSeq.filterNot(_ == op)
    val rows = log.frame.select((rest :+ op).map(quoted): _*)
    KafkaPosition.added(rows).getOrElse(rows)
  }

  private def checkOperation(schema: StructType, name: String): Unit = {
    val operation = columnOf(schema, name, "op=")
    if (operation.dataType != StringType)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGE.OPERATION_TYPE",
        "column" -> operation.name,
        "type" -> operation.dataType.sql
      )
  }

  /** The columns of the rows, then the number of copies. */
  private def updates(df: DataFrame, diff: String, time: Option[String]): DataFrame = {
    val copies = columnOf(df.schema, diff, "diff=")
    if (!copies.dataType.isInstanceOf[IntegralType])
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGE.DIFF_TYPE",
        "column" -> copies.name,
        "type" -> copies.dataType.sql
      )
    // An update's time is not part of the row, because a row is removed at another time than it was
    // added.
    val at = time.map(columnOf(df.schema, _, "time=").name)
    if (at.isEmpty && copies.name == ChangeColumns.Diff && df.columns.contains(ChangeColumns.Time))
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.CHANGE_TIME_IN_ROW", "column" -> ChangeColumns.Time)
    val rest = df.columns.toSeq.filterNot(name => name == copies.name || at.contains(name)).map(quoted)
    df.select(rest :+ quoted(copies.name).cast(LongType).as(copies.name): _*)
  }

  private def quoted(name: String) = col(quoteIdentifier(name))

  private def columnOf(schema: StructType, name: String, what: String): StructField = {
    val resolver = SQLConf.get.resolver
    schema.find(field => resolver(field.name, name)).getOrElse {
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGE.UNKNOWN_COLUMN",
        "argument" -> what,
        "column" -> name,
        "columns" -> schema.names.mkString(", ")
      )
    }
  }

  private def checkNames(schema: StructType): Unit = {
    val reserved = Seq(ChangeColumns.Version, ChangeColumns.Diff)
    val resolver = SQLConf.get.resolver
    schema.names.find(name => reserved.exists(resolver(_, name))).foreach { name =>
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.RESERVED_COLUMN", "column" -> name)
    }
    schema.names.groupBy(_.toLowerCase(Locale.ROOT)).values.find(_.length > 1).foreach { same =>
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.COLUMN_TWICE", "column" -> same.head)
    }
  }

  private def checkedKeys(schema: StructType, keys: Seq[Seq[String]]): Seq[Seq[String]] = {
    if (keys.isEmpty || keys.exists(_.isEmpty))
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.NO_KEY")
    val named = keys.map(_.map { name =>
      val column = columnOf(schema, name, "keys=")
      if (!RowKey.canHave(column.dataType))
        throw StreamJoinErrors
          .analysis("STREAMJOIN_ARRANGE.KEY_TYPE", "column" -> column.name, "type" -> column.dataType.sql)
      column.name
    })
    named.diff(named.distinct).headOption.foreach { twice =>
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGE.KEY_TWICE", "key" -> twice.mkString("[", ", ", "]"))
    }
    named
  }
}
