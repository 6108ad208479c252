package org.apache.spark.deploy.history

import org.apache.spark.{SecurityManager, SparkConf}

/**
 * A history server on a free port, over the event logs of a folder. It is in Spark's package as its
 * parts are.
 */
class TestHistoryServer(logs: String) extends AutoCloseable {
  private val conf = new SparkConf()
    .set("spark.history.fs.logDirectory", logs)
    .set("spark.history.fs.update.interval", "1s")
  private val provider = new FsHistoryProvider(conf)
  private val server = new HistoryServer(conf, provider, new SecurityManager(conf), 0)

  server.bind()
  provider.start()

  def address(application: String): String =
    s"http://localhost:${server.boundPort}/history/$application"

  override def close(): Unit = server.stop()
}
