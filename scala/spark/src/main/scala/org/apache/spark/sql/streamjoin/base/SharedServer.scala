package org.apache.spark.sql.streamjoin.base

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.{ConfigEntry, PLUGINS}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * What the sessions of a driver have in common. Those of a classic application belong to one user,
 * and share all of it. Over Spark Connect each has a user of its own, who finds only what is hers,
 * and cannot decide on what is everybody's.
 */
private[streamjoin] object SharedServer {
  private val Plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
  private val Service = "org.apache.spark.sql.connect.service.SparkConnectService"

  def sharesQueries(session: SparkSession): Boolean = sharesQueries(session.sparkContext)

  private def sharesQueries(context: SparkContext): Boolean =
    context.conf.get(StreamJoinConf.ShareQueries).getOrElse(!servesConnect(context))

  /**
   * Whether clients of Spark Connect may have sessions in this driver. The package is in each
   * distribution of Spark; nothing refers to its classes here, as a cluster may lack them.
   */
  private def servesConnect(context: SparkContext): Boolean =
    context.conf.get(PLUGINS).contains(Plugin) || service.exists { of =>
      try of.getMethod("server").invoke(of.getField("MODULE$").get(null)) != null
      catch {
        // Another build of it, of which nothing can be told.
        case NonFatal(_) => true
      }
    }

  /** Each batch asks, and to find that a class is not there takes a look into all jars. */
  private lazy val service: Option[Class[AnyRef]] =
    try Some(Utils.classForName[AnyRef](s"$Service$$"))
    catch { case _: ClassNotFoundException | _: LinkageError => None }

  /** The value of a setting for what all sessions share: on such a server, that of the server. */
  def get[A](entry: ConfigEntry[A], conf: SQLConf): A =
    SparkContext.getActive.filterNot(sharesQueries).fold(conf.getConf(entry))(_.conf.get(entry))

  /** On such a server, whether a session has a value of its own for it. */
  def isOverruled(entry: ConfigEntry[_], conf: SQLConf): Boolean =
    SparkContext.getActive.exists { context =>
      !sharesQueries(context) && conf.getConf(entry) != context.conf.get(entry)
    }
}
