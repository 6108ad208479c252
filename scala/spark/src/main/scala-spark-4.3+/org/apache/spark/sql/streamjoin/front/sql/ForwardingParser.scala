package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.catalyst.parser.{ParserInterface, SqlStatementSplitResult, TemporalIdentifier}

/** Hands what only newer lines of Spark ask of a parser to another one. */
private[streamjoin] trait ForwardingParser extends ParserInterface {
  protected def other: ParserInterface

  override def splitStatements(sqlText: String): SqlStatementSplitResult = other.splitStatements(sqlText)

  // The inherited one reads a name without its version or time.
  override def parseTemporalTableIdentifier(sqlText: String): TemporalIdentifier =
    other.parseTemporalTableIdentifier(sqlText)
}
