package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementMeta, ChangedColumns}
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors, TargetChange}

/** The differences between an arrangement and what a query would make of it. */
private[streamjoin] object ArrangementChanges {
  private val Unchanged = "unchanged"
  private val Rejected = "rejected"
  private val Accepts = s"${StreamJoinConf.Evolve.key}=${StreamJoinConf.Exact} accepts this change."

  /** The first one that `spark.streamjoin.evolve` does not accept fails. */
  def check(root: String, was: ArrangementMeta, is: ArrangementMeta): Unit = {
    val accepts = SQLConf.get.getConf(StreamJoinConf.Evolve) != StreamJoinConf.Reject
    definition(was, is).find(change => !accepts || change.state == Rejected).foreach { change =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_CHANGED",
        "arrangement" -> root,
        "what" -> change.what,
        "was" -> change.was,
        "is" -> change.is,
        "advice" -> change.advice
      )
    }
  }

  /** @param partitions the number that is set, if one is */
  def all(was: ArrangementMeta, is: ArrangementMeta, partitions: Option[Int]): Seq[TargetChange] =
    definition(was, is) ++ partitions.filter(_ != was.partitions).map { number =>
      val advice = "This needs no permission: readers continue with the number that they have."
      TargetChange("partitions", was.partitions.toString, number.toString, Unchanged, "exact", advice)
    }

  /** The columns last: what else differs is not possible. */
  private def definition(was: ArrangementMeta, is: ArrangementMeta): Seq[TargetChange] =
    Seq[(String, ArrangementMeta => String)](
      "input" -> (_.input.name),
      "time" -> (_.time.getOrElse("none")),
      "order" -> (_.order.getOrElse("none"))
    ).collect {
      case (what, of) if of(was) != of(is) =>
        rejected(what, of(was), of(is), s"Arrange the DataFrame with the same $what as before.")
    } ++ keys(was, is) ++ columns(was, is)

  private def keys(was: ArrangementMeta, is: ArrangementMeta): Option[TargetChange] =
    Option.unless(was.keys == is.keys) {
      if (is.keys.startsWith(was.keys)) {
        val advice = s"$Accepts A new base is written soon, with the added keys."
        TargetChange("keys", was.keysInWords, is.keysInWords, Unchanged, "exact", advice)
      } else {
        val advice = s"Keys can only be added, after those that it has: ${was.keysInWords}."
        rejected("keys", was.keysInWords, is.keysInWords, advice)
      }
    }

  private def columns(was: ArrangementMeta, is: ArrangementMeta): Option[TargetChange] =
    Option.unless(ChangedColumns.areSame(was.schema, is.schema)) {
      val (before, now) = (ChangedColumns.words(was.schema), ChangedColumns.words(is.schema))
      ChangedColumns.rejected(was, is.schema) match {
        case Some(why) => rejected("columns", before, now, why)
        case None =>
          val advice = s"$Accepts Readers keep the columns that they have until they are started again."
          TargetChange("columns", before, now, Unchanged, "exact", advice)
      }
    }

  private def rejected(what: String, was: String, is: String, advice: String): TargetChange =
    TargetChange(what, was, is, Rejected, "none", s"$advice Or arrange it under another name.")
}
