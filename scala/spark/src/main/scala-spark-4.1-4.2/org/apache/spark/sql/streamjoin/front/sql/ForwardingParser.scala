package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.catalyst.parser.ParserInterface

/** Hands what only newer lines of Spark ask of a parser to another one; here nothing. */
private[streamjoin] trait ForwardingParser extends ParserInterface {
  protected def other: ParserInterface
}
