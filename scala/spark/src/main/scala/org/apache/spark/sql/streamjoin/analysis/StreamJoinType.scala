package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.Join
import org.apache.spark.sql.catalyst.plans.{
  FullOuter => SparkFullOuter,
  InnerLike,
  JoinType => SparkJoinType,
  LeftAnti => SparkLeftAnti,
  LeftOuter => SparkLeftOuter,
  LeftSemi => SparkLeftSemi,
  RightOuter => SparkRightOuter
}

import streamjoin.core.JoinType

/** The types of stream-stream joins that streamjoin runs. */
private[streamjoin] object StreamJoinType {

  /** Whether we run this stream-stream join. Other types (existence joins) stay Spark's. */
  def isStreamJoin(join: Join): Boolean =
    join.left.isStreaming && join.right.isStreaming && of(join.joinType).isDefined

  def of(joinType: SparkJoinType): Option[JoinType] = joinType match {
    case _: InnerLike => Some(JoinType.Inner)
    case SparkLeftOuter => Some(JoinType.LeftOuter)
    case SparkRightOuter => Some(JoinType.RightOuter)
    case SparkFullOuter => Some(JoinType.FullOuter)
    case SparkLeftSemi => Some(JoinType.LeftSemi)
    case SparkLeftAnti => Some(JoinType.LeftAnti)
    case _ => None
  }
}
