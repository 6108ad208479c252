package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

/**
 * The changes of a batch in the target: for each key, its row after the batch, or that it has none.
 *
 * The changes of a batch have no order and do not need one: an added and removed row adds up to
 * nothing, and at most one added row per key may remain. So the contents of the target depend only
 * on the order of the changes between batches, not on how they were cut into batches. This requires
 * a key that identifies a row: if two rows with one key remain, [[ChangeCounts.double]] contains
 * the key, and nothing may be written.
 *
 * @param rows
 *   columns `c0`, `c1`, ... of the row, and [[NetChanges.Gone]]. For a removed key, they contain
 *   the removed row, because the columns of a target may not accept nulls.
 * @param micros
 *   whether times in JSON have microseconds, not milliseconds as in earlier versions
 */
final private[streamjoin] case class NetChanges(
    rows: DataFrame,
    columns: StructType,
    keys: Seq[Int],
    micros: Boolean = true
) {
  import NetChanges._

  def keyNames: Seq[String] = keys.map(columns(_).name)

  /** The columns of the row, with their own names. */
  def named: Seq[Column] = columns.indices.map(at => row(at).as(columns(at).name))

  def row(at: Int): Column = col(columnName(at))

  /**
   * The key as JSON. It is the same text in every session: nulls are written, and times are in UTC.
   */
  def keyJson: Column = json(keys)

  def rowJson: Column = json(columns.indices)

  private def json(of: Seq[Int]): Column = to_json(
    struct(of.map(at => Nested.forJson(row(at), columns(at).dataType).as(columns(at).name)): _*),
    if (micros) JsonOfMicros else Json
  )

  /** Counts the changes and looks for keys that are not unique, in one job. */
  def counts: ChangeCounts = {
    val nulls = array(keys.map(row(_).isNull): _*)
    val found = rows
      .agg(
        coalesce(count_if(!col(Gone)), lit(0L)),
        coalesce(count_if(col(Gone)), lit(0L)),
        coalesce(bool_or(col(WithoutDiff)), lit(false)),
        min(when(col(Came) > 1, keyJson)),
        collect_set(nulls)
      )
      .head()
    ChangeCounts(
      found.getLong(0),
      found.getLong(1),
      found.getBoolean(2),
      Option(found.getString(3)),
      found.getSeq[scala.collection.Seq[Boolean]](4).map(_.toSeq).toSeq
    )
  }
}

/**
 * @param hasNullDiff
 *   whether a change lacks its number of copies
 * @param double
 *   a key with more than one remaining row, as JSON
 * @param nullKeys
 *   for each occurring combination, which of the key's columns are null
 */
final private[streamjoin] case class ChangeCounts(
    upserts: Long,
    deletes: Long,
    hasNullDiff: Boolean,
    double: Option[String],
    nullKeys: Seq[Seq[Boolean]]
) {
  def isEmpty: Boolean = upserts + deletes == 0
}

private[streamjoin] object NetChanges {

  /** Whether the key no longer has a row. */
  val Gone = "gone"
  private val Came = "came"
  private val WithoutDiff = "withoutDiff"
  private val Copies = "copies"

  private def columnName(at: Int) = s"c$at"

  private val Json = {
    val options = new java.util.HashMap[String, String]()
    options.put("ignoreNullFields", "false")
    options.put("timeZone", "UTC")
    options
  }

  private val JsonOfMicros = {
    val options = new java.util.HashMap[String, String](Json)
    options.put("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]")
    options.put("timestampNTZFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]")
    options
  }

  /**
   * @param changes
   *   a batch, or an empty DataFrame with its columns, to check whether they can be used
   */
  def of(changes: DataFrame, options: UpsertOptions): NetChanges = {
    val schema = changes.schema
    val places = options.columnsOf(schema)
    val columns = StructType(places.rows.map { at =>
      schema(at).copy(dataType = asBytes(schema(at).dataType), metadata = Metadata.empty)
    })
    val internal = columns.indices.map(columnName)
    val keys = places.keys.map(internal)
    // Names may have dots, or occur twice among unused columns, so columns are selected by
    // position.
    val source = changes.toDF(schema.indices.map(at => s"s$at"): _*)
    val rows = source.select(
      places.rows.zip(columns).zip(internal).map { case ((at, column), name) =>
        Nested.sorted(col(s"s$at").cast(column.dataType), column.dataType).as(name)
      } :+ col(s"s${places.diff}").cast(LongType).as(Copies): _*
    )
    // One shuffle serves both aggregations: equal rows have equal keys.
    val net = rows
      .repartition(keys.map(col): _*)
      .groupBy(internal.map(col): _*)
      .agg(sum(Copies).as(Copies), bool_or(col(Copies).isNull).as(WithoutDiff))
      .where(col(Copies) =!= 0 || col(WithoutDiff))
    val others = internal.diff(keys)
    // The row with the most copies is an added one, if there is any.
    val last = max_by(struct((others :+ Copies).map(col): _*), coalesce(col(Copies), lit(0L)))
    val byKey = net
      .groupBy(keys.map(col): _*)
      .agg(
        last.as("last"),
        coalesce(sum(when(col(Copies) > 0, col(Copies))), lit(0L)).as(Came),
        bool_or(col(WithoutDiff)).as(WithoutDiff)
      )
    val row = internal.zip(columns).map { case (name, column) =>
      val value = if (keys.contains(name)) col(name) else col(s"last.$name")
      Nested.unsorted(value, column.dataType).as(name)
    }
    NetChanges(
      byKey.select(row ++ Seq((col(Came) === 0).as(Gone), col(Came), col(WithoutDiff)): _*),
      columns,
      places.keys
    )
  }

  /**
   * Strings that are equal under their collation are two values: one may be removed while the other
   * stays.
   */
  private def asBytes(dataType: DataType): DataType =
    dataType.transformRecursively { case _: StringType => StringType }
}
