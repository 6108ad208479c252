package org.apache.spark.sql.streamjoin.observe.publish

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

/**
 * Runs what must not fail a query. Of each kind of work the first failure is logged.
 *
 * @param log
 *   takes the kind and the failure
 */
final private[publish] class Guard(log: (String, Throwable) => Unit) {
  private val failed = ConcurrentHashMap.newKeySet[String]()

  /** Also where a platform lacks classes that Spark's web page is made with. */
  def apply(what: String)(run: => Unit): Unit =
    try run
    catch {
      case failure @ (NonFatal(_) | _: LinkageError) => if (failed.add(what)) log(what, failure)
    }
}
