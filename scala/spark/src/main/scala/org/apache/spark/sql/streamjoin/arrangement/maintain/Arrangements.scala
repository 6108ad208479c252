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
   *   column that orders the rows of a key over all batches; a row older than the last one does not
   *   count
   * @param order
   *   column that orders rows with the same time, or all rows without one, such as a position in a
   *   log
   * @param ttl
   *   how long rows are kept, by their time
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
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_NOT_A_STREAM",
        "call" -> "sj.arrange",
        "wanted" -> "a stream",
        "found" -> "a DataFrame of a batch",
        "advice" -> "Read it with spark.readStream; a table that does not change is read once, by Trigger.AvailableNow."
      )
    if (op.isDefined && diff.isDefined) throw refused("op= and diff= exclude each other", "Give one of them.")
    if (order.isDefined && op.isEmpty)
      throw refused("order= decides between changes of one key", "Give op= with it, or leave it out.")
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
      order.map(name => ordered(schema, log.flatMap(_.orderName).getOrElse(name), "order=", op))
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
      throw refused(
        "ttl= drops rows by their time, and a row of diff= has none that stays with it",
        "Leave ttl= out, or give op= and time=."
      )
    val name = meta.time.getOrElse(
      throw refused("ttl= drops rows by their time, and there is no time=", "Give time= with it.")
    )
    val dataType = meta.schema(name).dataType
    if (!TimeToLive.canHave(dataType))
      throw refused(
        s"ttl= drops rows by their time, and $name is ${dataType.sql}",
        s"""It has to be a TIMESTAMP, a TIMESTAMP_NTZ or a DATE: of milliseconds, F.timestamp_millis("$name")."""
      )
    val length = DurationText.length("sj.arrange", "ttl", ttl)
    if (length <= 0)
      throw DurationText.refused("sj.arrange", "ttl", ttl, "rows would go as soon as they come")
    length
  }

  /** The name of a column by which changes are compared. */
  private def ordered(schema: StructType, name: String, what: String, op: Option[String]): String = {
    val column = columnOf(schema, name, what)
    if (op.isDefined && !RowOrdering.isOrderable(column.dataType))
      throw refused(
        s"$what names ${column.name}, which is ${column.dataType.sql}",
        "Changes are compared by it: it has to be a time, a number or a text."
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
      throw refused(
        s"op= names ${operation.name}, which is ${operation.dataType.sql}",
        "It has to be a string."
      )
  }

  /** The columns of the rows, then the number of copies. */
  private def updates(df: DataFrame, diff: String, time: Option[String]): DataFrame = {
    val copies = columnOf(df.schema, diff, "diff=")
    if (!copies.dataType.isInstanceOf[IntegralType])
      throw refused(
        s"diff= names ${copies.name}, which is ${copies.dataType.sql}",
        "It has to be a whole number."
      )
    // An update's time is not part of the row: a row is not removed at the time of its addition.
    val at = time.map(columnOf(df.schema, _, "time=").name)
    if (at.isEmpty && copies.name == ChangeColumns.Diff && df.columns.contains(ChangeColumns.Time))
      throw refused(
        s"${ChangeColumns.Time} is the time of a change, so that what goes would have another one than what came",
        s"Write time=\"${ChangeColumns.Time}\", or drop the column."
      )
    val rest = df.columns.toSeq.filterNot(name => name == copies.name || at.contains(name)).map(quoted)
    df.select(rest :+ quoted(copies.name).cast(LongType).as(copies.name): _*)
  }

  private def quoted(name: String) = col(quoteIdentifier(name))

  private def columnOf(schema: StructType, name: String, what: String): StructField = {
    val resolver = SQLConf.get.resolver
    schema.find(field => resolver(field.name, name)).getOrElse {
      throw refused(
        s"$what names `$name`, which is no column",
        s"The columns are ${schema.names.mkString(", ")}."
      )
    }
  }

  private def checkNames(schema: StructType): Unit = {
    val reserved = Seq(ChangeColumns.Version, ChangeColumns.Diff)
    val resolver = SQLConf.get.resolver
    schema.names.find(name => reserved.exists(resolver(_, name))).foreach { name =>
      throw refused(
        s"$name is a column",
        "It is the name of a column that readers get. Give yours another, or leave it out."
      )
    }
    schema.names.groupBy(_.toLowerCase(Locale.ROOT)).values.find(_.length > 1).foreach { same =>
      throw refused(s"two columns have the name ${same.head}", "Give one of them another.")
    }
  }

  private def checkedKeys(schema: StructType, keys: Seq[Seq[String]]): Seq[Seq[String]] = {
    if (keys.isEmpty || keys.exists(_.isEmpty))
      throw refused(
        "keys= has no key",
        "Write keys=[[\"order_id\"], [\"customer_id\"]]: a list of columns for each index."
      )
    val named = keys.map(_.map { name =>
      val column = columnOf(schema, name, "keys=")
      if (!RowKey.canHave(column.dataType))
        throw refused(
          s"the key ${column.name} is ${column.dataType.sql}",
          "Maps, variants and strings with a collation cannot be keys."
        )
      column.name
    })
    named.diff(named.distinct).headOption.foreach { twice =>
      throw refused(s"keys= has ${twice.mkString("[", ", ", "]")} twice", "Leave one out.")
    }
    named
  }

  private def refused(problem: String, advice: String) =
    StreamJoinErrors.analysis("STREAMJOIN_ARRANGE", "problem" -> problem, "advice" -> advice)
}
