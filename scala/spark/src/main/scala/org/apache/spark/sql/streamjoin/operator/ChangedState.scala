package org.apache.spark.sql.streamjoin.operator

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  BoundReference,
  Expression,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.streamjoin.checkpoint.{Description, RecordedRows}
import org.apache.spark.sql.streamjoin.state.KeptRows
import org.apache.spark.sql.streamjoin.state.SegmentFormat.SideHeader
import org.apache.spark.sql.types.DataType

/**
 * The state of an operator before its query was changed. A row becomes one of the input that there
 * is now, and is stored as if it had arrived as such: with the keys of the changed query, and only
 * if it can have a match there.
 *
 * {{{
 *   stored row -- cast columns, add nulls --> row of the input -- mover --> stored row
 * }}}
 *
 * @param was
 *   by buffer: the rows in state
 * @param columns
 *   by buffer: the columns of the input, computed from a stored row
 * @param required
 *   by buffer: ordinals of columns that are never null now; a row with a null there is not one of
 *   the input
 * @param places
 *   by buffer, for each time that expires its rows: the position of that time among those of the
 *   rows in state; none if they are the same
 */
final private[operator] class ChangedState private (
    spec: StateSpec,
    stores: StateStores,
    was: Seq[RecordedRows],
    columns: Seq[Seq[Expression]],
    required: Seq[Array[Int]],
    places: Option[Seq[Seq[Option[Int]]]]
) extends StateToRewrite {

  /**
   * @param sides
   *   name of the side of each buffer; none if there is only one
   */
  def this(
      spec: StateSpec,
      stores: StateStores,
      was: Description,
      is: Description,
      sides: Seq[Option[String]],
      places: Option[Seq[Seq[Option[Int]]]]
  ) = this(
    spec,
    stores,
    ChangedState.rows(was, sides),
    ChangedState.rows(was, sides).zip(ChangedState.rows(is, sides)).map { case (rows, now) =>
      rows.columnsFor(now)
    },
    spec.columns.map(ChangedState.neverNull),
    places
  )

  override def partitions: Int = stores.partitions

  /**
   * Where rows leave by another time than before, none has left by that time, and their buckets are
   * as wide as those of a new query.
   */
  override def headers(hadoopConf: Configuration): Seq[SideHeader] = {
    val before = StoredState.headers(stores, was.map(_.layout), hadoopConf)
    places.fold(before) { places =>
      before.indices.map { side =>
        val now = before(side).copy(evictedBelow =
          places(side).map(_.fold(Long.MinValue)(before(side).evictedBelow(_)))
        )
        if (places(side).headOption.flatten.contains(0)) now
        else now.copy(bucketWidth = spec.bucketWidths(side))
      }
    }
  }

  override def rows(partition: Int, into: Int, hadoopConf: Configuration): Iterator[MovedRow] = {
    val kept = StoredState.open(stores, partition, was.map(_.layout), hadoopConf)
    was.indices.iterator.flatMap(rows(kept, _, into)) ++ spec.table.iterator.flatMap { case (keys, _) =>
      byKey(kept, keys, into)
    }
  }

  /** The rows in the table are those of the last input. */
  private def byKey(kept: KeptRows, keys: Seq[DataType], into: Int): Iterator[MovedRow] = {
    val input = UnsafeProjection.create(columns.last)
    val keyOf = UnsafeProjection.create(spec.tableKeys.zip(keys).map { case (field, keyType) =>
      BoundReference(field, keyType, nullable = true)
    })
    val place = Placement.ByFields(keys.indices).partition(keys, into)
    kept.changedEntries(was.last.stored.size)(input(_), keyOf(_)).map { case (key, entry) =>
      MovedRow.ofTable(place(key), entry)
    }
  }

  private def rows(kept: KeptRows, side: Int, into: Int): Iterator[MovedRow] = {
    val input = UnsafeProjection.create(columns(side))
    val mover = spec.mover(side, into)
    kept.buffered(side).flatMap { row =>
      val now: UnsafeRow = input(row.row)
      if (required(side).exists(now.isNullAt)) None else mover(now, row.isMatched)
    }
  }
}

private object ChangedState {
  private def rows(was: Description, sides: Seq[Option[String]]): Seq[RecordedRows] = sides.map { side =>
    RecordedRows
      .of(was.properties, side)
      .getOrElse(throw new IllegalStateException(s"the rows in state are not described: ${was.properties}"))
  }

  private def neverNull(columns: Seq[Attribute]): Array[Int] =
    columns.indices.filterNot(columns(_).nullable).toArray
}
