package org.apache.spark.sql.streamjoin.base

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streamjoin.SparkTest

/** The listeners that the queries of a session share. */
class SessionListenersSuite extends AnyFunSuite with SparkTest {

  test("queries that start at once add one listener") {
    val session = spark.newSession()
    val both = new CountDownLatch(2)
    def make() = {
      both.countDown()
      // The other thread must not get here as well.
      both.await(200, TimeUnit.MILLISECONDS): Unit
      new SessionListenersSuite.Deaf
    }
    val threads = Seq.fill(2)(new Thread(() => SessionListeners.addOnce(session)(make())))
    threads.foreach(_.start())
    threads.foreach(_.join())
    assert(session.streams.listListeners().count(_.isInstanceOf[SessionListenersSuite.Deaf]) == 1)
  }
}

object SessionListenersSuite {
  private class Deaf extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit = ()
    override def onQueryProgress(event: QueryProgressEvent): Unit = ()
    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
  }
}
