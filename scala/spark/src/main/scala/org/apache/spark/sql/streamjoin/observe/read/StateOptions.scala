package org.apache.spark.sql.streamjoin.observe.read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.OptionValues
import org.apache.spark.sql.streamjoin.base.OptionValues.rejected
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The options of `format("streamjoin")` for the state in a checkpoint. */
final private[streamjoin] class StateOptions(val options: CaseInsensitiveStringMap, session: SparkSession)
    extends OptionValues {
  import StateOptions._

  lazy val checkpoint: CheckpointInspector = new CheckpointInspector(
    session,
    text(Checkpoint).fold {
      val query = text(Query).getOrElse(throw rejected(Checkpoint, "", "the path of a checkpoint"))
      QueriesByName
        .checkpoint(session, query)
        .getOrElse(
          throw rejected(Query, query, s"the id or the name of a query; ${QueriesByName.known(session)}")
        )
    }(new Path(_))
  )

  /** The operator whose rows are read; none lists the operators. */
  lazy val operator: Option[OperatorOutline] = {
    val chosen = number(Operator, 1).map(number => checkpoint.operator(number.toInt, batch))
    if (chosen.isEmpty) Seq(Side, Batch).foreach { name =>
      text(name).foreach(value => throw rejected(name, value, s"option(\"$Operator\", 1) in addition"))
    }
    chosen
  }

  /** The inputs whose rows are read, and their numbers in the state. */
  lazy val inputs: Seq[(InputOutline, Int)] = {
    val all = operator.toSeq.flatMap(_.inputs.zipWithIndex)
    text(Side).fold(all) { side =>
      val chosen = all.filter(_._1.side.exists(_.equalsIgnoreCase(side)))
      if (chosen.isEmpty)
        throw rejected(
          Side,
          side,
          all.flatMap(_._1.side) match {
            case Seq() => "nothing: the operator keeps the rows of one input"
            case sides => sides.mkString(" or ")
          }
        )
      chosen
    }
  }

  /** Whether times and dates are text, including those in rows. */
  lazy val timesAreText: Boolean = text(Times).exists { asked =>
    if (!asked.equalsIgnoreCase(Text)) throw rejected(Times, asked, s"$Text, or is left out")
    true
  }

  lazy val batch: Long = {
    val known = checkpoint.batches
    number(Batch, 0).fold(known.last) { asked =>
      if (!known.contains(asked))
        throw rejected(
          Batch,
          asked.toString,
          s"a batch from ${known.head} to ${known.last}, whose state is kept"
        )
      asked
    }
  }
}

private[streamjoin] object StateOptions {
  val Checkpoint = "checkpoint"
  val Query = "query"
  val Operator = "operator"
  val Batch = "batch"
  val Side = "side"
  val Times = "times"
  private val Text = "text"

  /** Whether the options request the state of a checkpoint, not an arrangement. */
  def areGiven(options: CaseInsensitiveStringMap): Boolean =
    options.containsKey(Checkpoint) || options.containsKey(Query)
}
