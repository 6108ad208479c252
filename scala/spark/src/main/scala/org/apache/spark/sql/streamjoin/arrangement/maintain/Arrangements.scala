package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.{Locale, UUID}

import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{array, coalesce, col, explode, lit, lower, trim, when}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  ChangeColumns,
  InputKind,
  RowKey
}
import org.apache.spark.sql.streamjoin.base.{Operation, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Dataset, Row}

/** Turns a DataFrame into an arrangement. */
object Arrangements {

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
   *   column that orders rows with the same time, such as a position in a log
   * @param ttl
   *   how long rows are kept, by their time
   */
  def arrange(
      df: Dataset[Row],
      nameOrPath: String,
      keys: Seq[Seq[String]],
      op: Option[String],
      diff: Option[String],
      time: Option[String],
      order: Option[String] = None,
      ttl: Option[String] = None
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
    if (order.isDefined && (op.isEmpty || time.isEmpty))
      throw refused(
        "order= decides between changes of one key and one time",
        "Give op= and time= with it, or leave it out."
      )
    val (rows, change) = split(df, op, diff, time, order, keys)
    val columns = rows.columns.toSeq
    val data = rows.schema.take(columns.size - change.size)
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
      time.filter(_ => diff.isEmpty).map(ordered(schema, _, "time=", op)),
      order.map(ordered(schema, _, "order=", op))
    )
    val classic = rows.asInstanceOf[ClassicDataset[Row]]
    val root = ArrangementFolder.root(nameOrPath).toString
    val arranged = Arrange(root, meta, ttl.map(timeToLive(meta, diff, _)), classic.queryExecution.analyzed)
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

  /** The columns of the rows, then the one that says how they change. */
  private def split(
      df: DataFrame,
      op: Option[String],
      diff: Option[String],
      time: Option[String],
      order: Option[String],
      keys: Seq[Seq[String]]
  ): (DataFrame, Option[String]) = (op, diff) match {
    case (Some(name), _) =>
      val operation = columnOf(df.schema, name, "op=")
      if (operation.dataType != StringType)
        throw refused(
          s"op= names ${operation.name}, which is ${operation.dataType.sql}",
          "It has to be a string."
        )
      val plain = unwrapped(df, operation.name, time, order, keys.headOption.getOrElse(Nil))
      val rest = plain.columns.toSeq.filterNot(_ == operation.name).map(quoted)
      (plain.select(rest :+ quoted(operation.name): _*), op)
    case (_, Some(name)) =>
      val copies = columnOf(df.schema, name, "diff=")
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
      (df.select(rest :+ quoted(copies.name).cast(LongType).as(copies.name): _*), diff)
    case _ => (df, None)
  }

  private def quoted(name: String) = col(quoteIdentifier(name))

  /**
   * Debezium has the row in `after`, or in `before` if it was deleted. An update that moves the row
   * to another key becomes two changes, each in the partition of its key.
   */
  private def unwrapped(
      df: DataFrame,
      op: String,
      time: Option[String],
      order: Option[String],
      key: Seq[String]
  ): DataFrame = {
    val structs = Seq("before", "after").flatMap { name =>
      df.schema.find(field => field.name == name && field.dataType.isInstanceOf[StructType])
    }
    structs match {
      case Seq(before, after)
          if before.dataType
            .asInstanceOf[StructType]
            .names
            .sameElements(after.dataType.asInstanceOf[StructType].names) =>
        val (was, is) = (quoted("before"), quoted("after"))
        val names = after.dataType.asInstanceOf[StructType].names.toSeq
        val resolver = SQLConf.get.resolver
        val isDelete = lower(trim(quoted(op), Operation.Trimmed)).isin(Operation.names(Operation.Delete): _*)
        val isMoved = key
          .flatMap(column => names.find(resolver(_, column)))
          .map(name => !(was.getField(name) <=> is.getField(name)))
          .foldLeft(lit(false))(_ || _) && was.isNotNull && is.isNotNull && !isDelete
        val isOld = quoted(Part)
        val parts = df.withColumn(
          Part,
          explode(
            when(isMoved, array(lit(true), lit(false))).otherwise(array(coalesce(isDelete, lit(false))))
          )
        )
        val changedAt = (time ++ order).toSeq.distinct
        val (inRow, beside) = changedAt.partition(name => names.exists(resolver(_, name)))
        val row = names.map { name =>
          // The old row is removed at the time of the new one.
          val isFromOld = if (inRow.exists(resolver(_, name))) isOld && !isMoved else isOld
          when(isFromOld, was.getField(name)).otherwise(is.getField(name)).as(name)
        }
        val others = beside.map(name => quoted(columnOf(df.schema, name, "time= or order=").name))
        // The new key may be unknown, as in an insert.
        val operation = when(isMoved && isOld, lit(Operation.names(Operation.Before).head))
          .when(isMoved, lit(Operation.names(Operation.Insert).head))
          .otherwise(quoted(op))
        parts.select(row ++ others :+ operation.as(op): _*)
      case _ => df
    }
  }

  private val Part = "_streamjoin_is_old"

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
