package org.apache.spark.sql.streamjoin.observe.collect

/**
 * What has become of the rows of an input since the last batch in which one of them reached the
 * operator, in one run.
 *
 * @param batches
 *   in which another input had rows, and none of this one reached the operator
 * @param path
 *   their rows, added up
 * @param hadRows
 *   whether a row has reached the operator before
 */
final private[streamjoin] case class Inflow(
    batches: Long = 0,
    read: Long = 0,
    files: Long = 0,
    inReader: Seq[String] = Nil,
    removed: Map[RowPath.Remover, Long] = Map.empty,
    isDeferred: Boolean = false,
    hadRows: Boolean = false
) {

  /**
   * @param reached
   *   rows that reached the operator in a batch
   * @param others
   *   rows of the other inputs that did
   */
  def after(path: RowPath, reached: Long, others: Long): Inflow =
    if (reached > 0) Inflow(hadRows = true)
    else
      Inflow(
        if (others > 0) batches + 1 else batches,
        read + path.read,
        files + path.files,
        if (path.files > 0) path.inReader else inReader,
        path.steps.foldLeft(removed) { case (all, RowPath.Step(remover, rows)) =>
          all.updated(remover, all.getOrElse(remover, 0L) + rows)
        },
        path.isDeferred || isDeferred,
        hadRows
      )
}
