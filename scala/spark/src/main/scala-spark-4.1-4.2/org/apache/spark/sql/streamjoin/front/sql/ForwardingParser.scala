package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.catalyst.parser.ParserInterface

/** Forwards the methods that only newer Spark lines call on a parser; there are none here. */
private[streamjoin] trait ForwardingParser extends ParserInterface {
  protected def other: ParserInterface
}
