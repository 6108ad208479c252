package org.apache.spark.sql.streamjoin.observe.collect

import scala.collection.mutable

import org.apache.spark.sql.streamjoin.base.UnreadMessages

/**
 * The counts of the tasks about the rows of an operator in a run. The counts of keys are halved
 * from time to time, so that keys that were hot long ago are forgotten.
 */
final private[streamjoin] class ObservedRows {
  import ObservedRows._

  private val distances = new TimeHistogram
  private val rows, nullKeys = new Array[Long](2)
  private val keys = Array.fill(2)(mutable.Map.empty[String, Long])
  private val late = Array.fill(2)(new TimeHistogram)
  private val leaps = Array.fill(2)(Option.empty[Leap])
  private val inflows = Array.fill(2)(Inflow())
  private val marks = mutable.LinkedHashMap.empty[(Int, String), RowPath.Marked]
  private var samples: Option[(KeySample, KeySample)] = Some((new KeySample, new KeySample))
  private var said, unsaid, rowsOut = 0L
  private var above: Option[Waiting] = None

  /**
   * @param reports
   *   reports of a batch
   * @param paths
   *   the path of the rows of each input to the operator
   * @param newest
   *   for each input, the newest event time, against which the lateness of its rows is measured
   */
  def add(reports: TaskReports, paths: Seq[RowPath], newest: Seq[Option[Long]]): Unit = synchronized {
    val observed = reports.observed
    observed.foreach { task =>
      distances.add(task.distances)
      for ((hot, at) <- task.hotKeys.zipWithIndex; key <- hot)
        keys(at)(key.key) = keys(at).getOrElse(key.key, 0L) + key.rows
      task.nullKeys.zipWithIndex.foreach { case (count, at) => nullKeys(at) += count }
    }
    val came = rows.indices.map(at => reports.sum(_.in(at)))
    rows.indices.foreach(at => add(at, came(at), observed.map(_.lateness(at)), newest.lift(at).flatten))
    paths.zipWithIndex.take(rows.length).foreach { case (path, at) =>
      inflows(at) = inflows(at).after(path, came(at), came.sum - came(at))
      path.marked.foreach(add(at, _))
    }
    rowsOut += reports.sum(_.out)
    compare(observed, came)
  }

  private def add(at: Int, came: Long, lateness: Seq[TimeHistogram], newest: Option[Long]): Unit = {
    val all = new TimeHistogram
    lateness.foreach(all.add)
    late(at).add(all)
    leaps(at) = leaps(at).flatMap(_.after(all, newest)).orElse(newest.flatMap(Leap.in(all, _)))
    rows(at) += came
    if (rows(at) > Many) {
      rows(at) /= 2
      nullKeys(at) /= 2
      keys(at).mapValuesInPlace((_, count) => count / 2)
    }
    if (keys(at).size > Keys)
      keys(at).subtractAll(keys(at).toSeq.sortBy(_._2).map(_._1).dropRight(Keys / 2))
  }

  private def add(at: Int, marked: RowPath.Marked): Unit = {
    val before = marks.getOrElse((at, marked.column), RowPath.Marked(marked.column, 0, 0))
    val all = RowPath.Marked(marked.column, before.rows + marked.rows, before.nulls + marked.nulls)
    marks((at, marked.column)) =
      if (all.rows <= Many) all else all.copy(rows = all.rows / 2, nulls = all.nulls / 2)
  }

  /** The samples are reset after a batch with a match. */
  private def compare(observed: Seq[RowObserver.Observed], came: Seq[Long]): Unit =
    if (observed.exists(_.matches > 0)) samples = None
    else if (came.forall(_ > 0) && samples.isEmpty) samples = Some((new KeySample, new KeySample))
    else
      for ((left, right) <- samples; Seq(ofLeft, ofRight) <- observed.flatMap(_.samples)) {
        left.add(ofLeft)
        right.add(ofRight)
      }

  /** Whether the tasks of the next batch sample keys: they do so until a row matches. */
  def samplesKeys: Boolean = synchronized(samples.isDefined)

  /** Samples of the keys of both inputs since the last match; none if rows have matched since. */
  def compared: Option[(KeySample, KeySample)] = synchronized(samples)

  /** An aggregation above, after the batch. */
  def addAbove(aggregation: Waiting): Unit = synchronized {
    above = Some(aggregation.copy(emitted = above.fold(0L)(_.emitted) + aggregation.emitted))
  }

  /**
   * The aggregation above with the groups that it has emitted since the run began, and the rows
   * that the operator has emitted.
   */
  def aggregated: Option[(Waiting, Long)] = synchronized(above.map(_ -> rowsOut))

  /** The steps that remove rows of an input. */
  def inflow(at: Int): Inflow = synchronized(inflows(at))

  /** The rows of an input that passed its marks. */
  def marked(at: Int): Seq[RowPath.Marked] =
    synchronized(marks.collect { case ((`at`, _), marked) => marked }.toSeq)

  /** The number of rows of an input, and how many of them have a null in their key. */
  def rowsWithoutKey(at: Int): (Long, Long) = synchronized((rows(at), nullKeys(at)))

  /** How far the rows of an input were behind the newest row of earlier batches. */
  def lateness(at: Int): TimeHistogram = synchronized(late(at).fromZero)

  /** How far a row was ahead of the others, in ms, if nearly all later rows have been behind it. */
  def leap(at: Int): Option[Long] = synchronized(leaps(at).filter(_.behind > 0).map(_.millis))

  /**
   * Adds the messages of a batch.
   *
   * @param unread
   *   how many of them were empty
   * @return
   *   the number of messages, once there are many and all of them were empty
   */
  def addMessages(messages: Long, unread: Long): Option[Long] = synchronized {
    val before = unsaid
    said += messages - unread
    unsaid += unread
    Option.when(said == 0 && before < UnreadMessages.Many && unsaid >= UnreadMessages.Many)(unsaid)
  }

  /** The number of matches, and quantiles of their distances, in ms. */
  def quantiles(shares: Double*): (Long, Seq[Long]) = synchronized {
    (distances.total, shares.flatMap(distances.quantile))
  }

  /**
   * The hottest keys of an input with their shares of its rows, the hottest first; none if few rows
   * have arrived.
   */
  def hotKeys(at: Int): Seq[(String, Double)] = synchronized {
    if (rows(at) < Few) Nil
    else
      keys(at).toSeq
        .map { case (key, count) => key -> math.min(count.toDouble / rows(at), 1.0) }
        .filter(_._2 >= Share)
        .sortBy(-_._2)
        .take(Shown)
  }
}

private object ObservedRows {
  private val Few = 1000L
  private val Many = 10000000L
  private val Keys = 200
  private val Share = 0.05
  private val Shown = 5

  /**
   * One row, or very few, far ahead of all others.
   *
   * @param time
   *   approximate time of the row, in microseconds
   * @param millis
   *   how far it is ahead
   * @param behind
   *   later rows that are far behind it
   * @param along
   *   later rows that are not
   */
  final private case class Leap(time: Long, millis: Long, behind: Long, along: Long) {

    /**
     * None once other rows have caught up. A batch that does not know the row yet has no effect.
     */
    def after(lateness: TimeHistogram, newest: Option[Long]): Option[Leap] =
      if (newest.forall(_ < time - millis * 500)) Some(this)
      else {
        val far = lateness.buckets.filter(_.from >= millis / 2).map(_.count).sum
        Some(copy(behind = behind + far, along = along + lateness.total - far))
          .filter(now => isFew(now.along, now.behind + now.along))
      }
  }

  private def isFew(some: Long, all: Long): Boolean = some <= 2 || some * 100 <= all

  private object Leap {
    private val Far = 3600000L

    def in(lateness: TimeHistogram, newest: Long): Option[Leap] = {
      val ahead = lateness.buckets.takeWhile(_.to <= 0)
      for {
        first <- ahead.headOption
        millis = -first.to + 1
        leaping = ahead.takeWhile(-_.from >= millis / 2).map(_.count).sum
        if millis >= Far && isFew(leaping, lateness.total)
      } yield Leap(newest + millis * 1000, millis, 0, 0)
    }
  }
}
