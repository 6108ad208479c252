package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper.{
  LeftSide,
  RightSide
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.{
  JoinStateManagerStoreGenerator,
  SymmetricHashJoinStateManager
}
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.checkpoint.{SparksJoin, SparksJoins}
import org.apache.spark.sql.streamjoin.operator.{MovedRow, StateStores, StateToRewrite}
import org.apache.spark.sql.streamjoin.state.SegmentFormat.SideHeader
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.StructType

import streamjoin.core.Side

/**
 * Up to which time Spark's own join has evicted the rows of a side.
 *
 * @param column
 *   the column whose times it compares
 * @param millis
 *   a row at this time or before has left
 */
final private[streamjoin] case class SparksLimit(column: Attribute, millis: Long) {

  /** Rows below this time have left, in microseconds. The time of a window is its last instant. */
  def evictedBelow: Long = millis * 1000 + (if (EventTime.isWindow(column)) 0 else 1)
}

/**
 * How far Spark's own join has come.
 *
 * @param lateMillis
 *   the watermark by which the batch of the take-over would judge late rows
 * @param limits
 *   by side, where it has evicted any rows
 */
final private[streamjoin] case class SparksProgress(lateMillis: Long, limits: Map[Side, SparksLimit]) {

  /** In microseconds: to Spark, a row at its watermark is late. */
  def lateBelow: Long = lateMillis * 1000 + 1
}

/**
 * The state of Spark's own join. It has all rows that ours would have, and more: Spark evicts by
 * the lowest watermark of all streams, rounded down to milliseconds, and keeps rows that can match
 * nothing, because they have a null in a key or in a time.
 *
 * @param info
 *   where its stores are, at the version to read
 * @param columns
 *   by side: which of the columns in state each column of the input is
 * @param evictedBelow
 *   by side and expiring time, in microseconds
 */
final private[interval] class SparksState(
    join: SparksJoin,
    info: StatefulOperatorStateInfo,
    spec: IntervalTaskSpec,
    columns: Map[Side, Seq[Int]],
    evictedBelow: Map[Side, Seq[Long]],
    conf: StateStoreConf
) extends StateToRewrite {

  override def partitions: Int = info.numPartitions

  override def headers(hadoopConf: Configuration): Seq[SideHeader] = Side.both.map { side =>
    SideHeader(spec.sides(side).bucketWidth, segments = 0, flagged = 0, rows = 0, evictedBelow(side))
  }

  override def rows(partition: Int, into: Int, hadoopConf: Configuration): Iterator[MovedRow] =
    Side.both.iterator.flatMap { side =>
      val manager = open(side, partition, hadoopConf)
      val mover = new Mover(side, into)
      manager.iterator.flatMap(pair => mover.moved(pair.value, pair.matched)) ++ {
        manager.abortIfNeeded()
        Iterator.empty
      }
    }

  private def open(side: Side, partition: Int, hadoopConf: Configuration): SymmetricHashJoinStateManager = {
    val ids = SymmetricHashJoinStateManager.getStateStoreCheckpointIds(
      partition,
      info.stateStoreCkptIds,
      SparksJoins.hasOneStore(join.format)
    )
    val (ofSide, own) = if (side == Side.Left) (LeftSide, ids.left) else (RightSide, ids.right)
    SymmetricHashJoinStateManager(
      joinSide = ofSide,
      inputValueAttributes = DataTypeUtils.toAttributes(join.columns(side)),
      joinKeys = DataTypeUtils.toAttributes(join.keys),
      stateInfo = Some(info),
      storeConf = conf,
      hadoopConf = new Configuration(hadoopConf),
      partitionId = partition,
      keyToNumValuesStateStoreCkptId = own.keyToNumValues,
      keyWithIndexToValueStateStoreCkptId = own.keyWithIndexToValue,
      stateFormatVersion = join.format,
      useStateStoreCoordinator = false,
      joinStoreGenerator = new JoinStateManagerStoreGenerator
    )
  }

  final private class Mover(side: Side, into: Int) {
    private val input: Option[UnsafeProjection] =
      if (columns(side) == join.columns(side).indices) None
      else
        Some(
          UnsafeProjection.create(
            columns(side).map(at => BoundReference(at, join.columns(side)(at).dataType, nullable = true))
          )
        )
    private val mover = new IntervalMover(spec, side, into)

    def moved(row: UnsafeRow, isMatched: Boolean): Option[MovedRow] =
      mover.moved(input.fold(row)(_(row)), isMatched)
  }
}

private[streamjoin] object SparksState {

  /**
   * Which of the columns in state each column of an input is; none if they differ. Spark identifies
   * them by their positions, and its optimizer may have pruned or ordered them differently.
   */
  def columns(stored: StructType, input: Seq[Attribute]): Option[Seq[Int]] = {
    def isSame(at: Int, column: Attribute) = {
      val field = stored(at)
      field.name == column.name && field.dataType.asNullable == column.dataType.asNullable
    }
    val inOrder = stored.size == input.size && input.indices.forall(at => isSame(at, input(at)))
    val isUnique = stored.map(_.name).distinct.size == stored.size
    if (inOrder) Some(input.indices)
    else {
      val found = input.map(column => stored.indices.find(isSame(_, column)))
      Option.when(isUnique && found.forall(_.isDefined) && found.distinct.size == found.size)(found.flatten)
    }
  }

  private[interval] def of(
      join: SparksJoin,
      info: StatefulOperatorStateInfo,
      spec: IntervalTaskSpec,
      limits: Map[Side, SparksLimit],
      settings: SQLConf
  ): SparksState = {
    val bySide = Side.both.map { side =>
      val own = spec.sides(side)
      val found = columns(join.columns(side), own.output).getOrElse {
        throw new IllegalStateException(s"the columns ${join.columns(side)} were not those of ${own.output}")
      }
      val below = own.bounds.filter(_.evictionLimit.isDefined).map { time =>
        limits.get(side).filter(_.column.semanticEquals(time.time)).fold(Long.MinValue)(_.evictedBelow)
      }
      side -> (found -> below)
    }.toMap
    new SparksState(
      join,
      info,
      spec,
      bySide.transform((_, of) => of._1),
      bySide.transform((_, of) => of._2),
      StateStores.toRead(settings.clone(), info)
    )
  }
}
