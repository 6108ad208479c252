package org.apache.spark.sql.streamjoin.base

import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.internal.config.{ConfigEntry, PLUGINS}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.Utils

/**
 * What the sessions of a driver share. The sessions of a classic application belong to one user and
 * share everything. Over Spark Connect, each session has its own user, who finds only their own
 * queries and cannot change settings that affect all users.
 */
private[streamjoin] object SharedServer {
  private val Plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
  private val Service = "org.apache.spark.sql.connect.service.SparkConnectService"

  def sharesQueries(session: SparkSession): Boolean = sharesQueries(session.sparkContext)

  private def sharesQueries(context: SparkContext): Boolean =
    context.conf.get(StreamJoinConf.ShareQueries).getOrElse(!servesConnect(context))

  /**
   * Whether clients of Spark Connect may have sessions in this driver. Every distribution of Spark
   * has the package, but a cluster may lack it, so nothing here refers to its classes.
   */
  private def servesConnect(context: SparkContext): Boolean =
    context.conf.get(PLUGINS).contains(Plugin) || service.exists { of =>
      try of.getMethod("server").invoke(of.getField("MODULE$").get(null)) != null
      catch {
        // A different build, about which nothing is known.
        case NonFatal(_) => true
      }
    }

  /** Each batch asks, and finding out that a class is missing requires a search of all jars. */
  private lazy val service: Option[Class[AnyRef]] =
    try Some(Utils.classForName[AnyRef](s"$Service$$"))
    catch { case _: ClassNotFoundException | _: LinkageError => None }

  /** The value of a setting that affects all sessions: on such a server, the server's value. */
  def get[A](entry: ConfigEntry[A], conf: SQLConf): A =
    SparkContext.getActive.filterNot(sharesQueries).fold(conf.getConf(entry))(_.conf.get(entry))

  /** On such a server, whether a session has its own value for it. */
  def isOverruled(entry: ConfigEntry[_], conf: SQLConf): Boolean =
    SparkContext.getActive.exists { context =>
      !sharesQueries(context) && conf.getConf(entry) != context.conf.get(entry)
    }
}
