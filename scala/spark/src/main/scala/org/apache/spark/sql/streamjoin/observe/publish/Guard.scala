package org.apache.spark.sql.streamjoin.observe.publish

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

/**
 * Runs code that must not fail a query. The first failure of each kind of work is logged.
 *
 * @param log
 *   receives the kind and the failure
 */
final private[publish] class Guard(log: (String, Throwable) => Unit) {
  private val failed = ConcurrentHashMap.newKeySet[String]()

  /** Includes errors on platforms that lack classes of Spark's web page. */
  def apply(what: String)(run: => Unit): Unit =
    try run
    catch {
      case failure @ (NonFatal(_) | _: LinkageError) => if (failed.add(what)) log(what, failure)
    }
}
