package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{CommonExpressionRef, Expression, With}

/** Values that an expression uses several times, and that Spark would compute once below it. */
private[streamjoin] object CommonValues {

  /** The expression with each value wherever it is used. */
  def inPlace(common: With): Expression = {
    val byId = common.defs.map(definition => definition.id -> definition.child).toMap
    common.child.transform { case CommonExpressionRef(id, _, _) if byId.contains(id) => byId(id) }
  }
}
