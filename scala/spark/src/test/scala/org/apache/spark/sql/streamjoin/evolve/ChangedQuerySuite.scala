package org.apache.spark.sql.streamjoin.evolve

import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

import streamjoin.core.Side

/** A running interval join is changed; its rows are those of [[ChangedQueryOracle]]. */
class ChangedQuerySuite extends AnyFunSuite with JoinTest {
  import ChangedQuery._

  override protected def settings: Map[String, String] = Map("spark.streamjoin.evolve" -> "allow")

  /** Every n-th case, beginning some places later. */
  protected def every: (Int, Int) = (9, 4)

  protected def seeds: Int = SparkTest.seedsOf(types.size + bounds.size)

  private val (hour, half, two) = (ChangedQuery(), ChangedQuery(to = 30), ChangedQuery(to = 120))

  private def of(how: String) = ChangedQuery(how)

  private val types = for {
    (was, is) <- Seq(
      "left_outer" -> "inner",
      "full_outer" -> "left_outer",
      "full_outer" -> "right_outer",
      "left_semi" -> "left_anti",
      "left_anti" -> "left_semi",
      "left_outer" -> "left_semi",
      "full_outer" -> "left_anti",
      "inner" -> "left_outer",
      "inner" -> "full_outer",
      "left_outer" -> "right_outer",
      "left_semi" -> "inner",
      "left_anti" -> "full_outer"
    )
  } yield (s"$was to $is", of(was), of(is))

  private val bounds = Seq("inner", "left_outer", "full_outer", "left_semi", "left_anti").flatMap { how =>
    Seq(
      (s"a narrower bound, $how", hour.copy(how), half.copy(how)),
      (s"a wider bound, $how", half.copy(how), two.copy(how)),
      (s"both bounds, $how", hour.copy(how, from = 10), hour.copy(how, from = -20, to = 45)),
      (s"another condition, $how", hour.copy(how, pair = Less), hour.copy(how, pair = Even))
    )
  } :+ (("no more condition on one side", of("left_outer").copy(left = Some(3)), of("left_outer")))

  /** Each batch is half an hour later than the one before. A row of each side has no match. */
  private def story(random: Random): Seq[Seq[Fed]] = (0 until 9).map { batch =>
    val alone = if (batch > 0) Nil else Side.both.map(side => Fed(side, side.name, 600, 9 + 10 * side.index))
    val others = for (side <- Side.both; at <- 0 until 4 + random.nextInt(3)) yield {
      val id = ('a' + random.nextInt(2)).toChar.toString
      Fed(side, id, 600 + 30 * batch + random.nextInt(30), 100 * batch + 10 * side.index + at)
    }
    alone ++ others
  } :+ Side.both.map(side => Fed(side, side.name, 1200, 9990))

  private def runs(queries: Seq[ChangedQuery], rows: Seq[Seq[Fed]]): Assertion = {
    val oracle = new ChangedQueryOracle
    val expected = queries.zip(rows).map { case (query, fed) => oracle.feed(query, fed) }
    val first = job(queries.head.frame)
    first.start()
    val (found, _) = queries.zip(rows).foldLeft((Seq.empty[Seq[String]], (queries.head, first))) {
      case ((out, (before, running)), (query, fed)) =>
        val next =
          if (query == before) running
          else {
            running.stop()
            running.successor(query.frame).start()
          }
        try (out :+ next.feed(fed.map(_.row): _*), (query, next))
        catch {
          case failed: Throwable =>
            next.stop()
            throw failed
        }
    } match { case (out, (query, last)) => last.stop(); (out, query) }
    assert(found == expected)
    assert(expected.flatten.nonEmpty)
  }

  private val cases = for {
    seed <- 1 to seeds
    (name, was, is) <- SparkTest.part(types ++ bounds, every._1, every._2)
  } yield (s"$name, seed $seed", was, is)

  testAll(cases, (_: (String, ChangedQuery, ChangedQuery))._1) { case (name, was, is) =>
    val random = new Random(name.hashCode)
    val rows = story(random)
    val change = 2 + random.nextInt(5)
    // And back, if that can be done.
    val back =
      if (is.joinType.filtered.isDefined == was.joinType.filtered.isDefined) change + 2 else rows.size
    val queries =
      rows.indices.map(batch => if (batch < change || batch >= back && was.left.isEmpty) was else is)
    runs(queries, rows)
  }
}

/** The same law with RocksDB, for some of the changes. */
class ChangedQueryOnRocksDbSuite extends ChangedQuerySuite {
  override protected def settings: Map[String, String] = super.settings + (
    "spark.sql.streaming.stateStore.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  )

  override protected def every: (Int, Int) = (33, 1)

  // What a change means does not depend on the store.
  override protected def seeds: Int = math.min(super.seeds, 4)
}
