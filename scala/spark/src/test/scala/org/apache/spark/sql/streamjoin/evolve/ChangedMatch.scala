package org.apache.spark.sql.streamjoin.evolve

import scala.util.matching.Regex

import org.apache.spark.sql.streamjoin.joins.temporal.{RandomMatch, TemporalCore}
import org.apache.spark.sql.streamjoin.{ChangedCore, RandomStory}

import streamjoin.core._

/** Changes of a temporal or an as-of join. */
final private[evolve] class ChangedMatch(seed: Int) extends ChangedStory(seed) {
  override val random: RandomStory = new RandomMatch(seed.toLong)

  override def keepsLabels: Boolean = false

  override protected def queries: Seq[(String, Trace)] = {
    val outer = s"join: ${JoinType.LeftOuter.name}"
    def changed(name: String)(line: String => String) = {
      val lines = random.trace.lines.map(line)
      Option.when(lines != random.trace.lines)(
        name -> TraceParser.parse(s"$name, $random", lines.mkString("\n"))
      )
    }
    def another(name: String, from: Regex, prefix: String)(number: Int => Int) = changed(name) { line =>
      from.replaceAllIn(line, found => prefix + number(found.group(1).toInt))
    }
    def less(number: Int) = choice.nextInt(number + 1)
    def more(number: Int) = number + 1 + choice.nextInt(8)
    Seq(
      another("shorter tolerance", ChangedMatch.Within, "within ")(less),
      another("longer tolerance", ChangedMatch.Within, "within ")(more),
      another("shorter history", ChangedMatch.History, "history: ")(less),
      another("longer history", ChangedMatch.History, "history: ")(more),
      changed("to inner")(line => if (line == outer) s"join: ${JoinType.Inner.name}" else line)
    ).flatten
  }

  override val core: ChangedCore = new TemporalCore(random.trace)
}

private object ChangedMatch {
  private val Within = """within (\d+)""".r
  private val History = """history: (\d+)""".r
}
