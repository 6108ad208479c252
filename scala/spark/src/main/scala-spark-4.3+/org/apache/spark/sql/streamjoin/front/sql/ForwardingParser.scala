package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.catalyst.parser.{ParserInterface, SqlStatementSplitResult, TemporalIdentifier}

/** Forwards the methods that only newer Spark lines call on a parser. */
private[streamjoin] trait ForwardingParser extends ParserInterface {
  protected def other: ParserInterface

  override def splitStatements(sqlText: String): SqlStatementSplitResult = other.splitStatements(sqlText)

  // The inherited method parses a name without its version or time.
  override def parseTemporalTableIdentifier(sqlText: String): TemporalIdentifier =
    other.parseTemporalTableIdentifier(sqlText)
}
