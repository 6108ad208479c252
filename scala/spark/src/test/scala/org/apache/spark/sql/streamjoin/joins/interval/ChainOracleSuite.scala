package org.apache.spark.sql.streamjoin.joins.interval

import java.sql.Timestamp

import scala.util.Random

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.JoinType

/**
 * Random chains of joins, of all types and shapes, over streams that drift apart and stall,
 * compared with Spark's batch join of the same rows. No row is late, so both must agree.
 */
class ChainOracleSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val seeds = SparkTest.seeds(default = 1)

  testAll[RandomChain]((1 to seeds).map(seed => new RandomChain(seed.toLong)), chain => s"$chain")(compare)

  test("a batch that is replayed with its rows in another order gives the same output") {
    val sizes = (1 to SparkTest.seeds(default = 2)).map { seed =>
      val chain = new RandomChain(seed.toLong)
      val again = job(streams => chain.query(streams.marked(_, RandomChain.Delay)))
      again.order = new Random(seed).shuffle(_)
      running(again) { job =>
        chain.batches.foreach { rows =>
          job.feed(rows ++ rows.take(2): _*)
          val redone = job.redoLast()
          val attempts = job.seen.filter(_.id == redone).map(_.rows.sorted)
          assert(attempts.size == 2, s"seed $seed, batch $redone: ${chain.tree}")
          assert(attempts.distinct.size == 1, s"seed $seed, batch $redone: ${chain.tree}")
        }
        job.seen.map(_.rows.size).sum
      }
    }
    assert(sizes.sum * 6 > 50 * sizes.size)
  }

  private def compare(chain: RandomChain): Assertion = {
    val streaming = job(streams => chain.query(streams.marked(_, RandomChain.Delay)))
    running(streaming) { job =>
      chain.batches.zipWithIndex.foreach { case (rows, number) =>
        job.feed(rows: _*)
        if (chain.restarts(number)) job.restart()
      }
      (0 until 2).foreach(_ => job.feed(chain.end: _*))
      val fields = StructType.fromDDL(Events)
      val expected = chain.query { name =>
        val rows = chain.batches.flatten.collect { case (`name`, row) => row }
        spark.createDataFrame(spark.sparkContext.parallelize(rows), fields).as(name)
      }
      val seen = withoutClosingRows(job.seen.flatMap(_.rows), RandomChain.End.toString).sorted
      assert(seen == expected.collect().map(text(_: Row)).sorted.toSeq)
      assert(job.dropped == 0, "no row may be late")
      val left = job.progress.stateOperators.map(_.numRowsTotal).sum
      assert(left <= chain.names.size * 4, "expired rows must leave the state of every join")
    }
  }
}

/** A random chain of joins, with the rows of its streams. */
final private class RandomChain(seed: Long) {
  override def toString: String = s"seed $seed: $tree"

  import RandomChain._

  private val random = new Random(seed)

  val tree: Tree = random.nextInt(3) match {
    case 0 => join(join(Leaf("a"), Leaf("b")), Leaf("c"))
    case 1 => join(Leaf("a"), join(Leaf("b"), Leaf("c")))
    case _ => join(join(Leaf("a"), Leaf("b")), join(Leaf("c"), Leaf("e")))
  }

  val names: Seq[String] = tree.leaves

  private def pick[T](from: Seq[T]): T = from(random.nextInt(from.size))

  private def join(left: Tree, right: Tree): Tree = {
    val lowest = random.between(-20, 10)
    Node(
      left,
      right,
      pick(JoinType.all),
      pick(left.visible),
      pick(right.visible),
      lowest,
      lowest + random.between(0, 30)
    )
  }

  /** The chain as a query, with one column of each input that is still visible. */
  def query(input: String => DataFrame): DataFrame = {
    def of(tree: Tree): DataFrame = tree match {
      case Leaf(name) => input(name)
      case node: Node => of(node.left).join(of(node.right), expr(node.condition), node.joinType.name)
    }
    of(tree).select(tree.visible.map(name => col(s"$name.v")): _*)
  }

  private val now = scala.collection.mutable.Map(names.map(_ -> random.between(0L, 20L)): _*)
  private var number = 0

  /** No row is behind by more than the watermark's delay. */
  val batches: Seq[Seq[(String, Row)]] = Seq.fill(6) {
    val some = names.filter(_ => random.nextInt(3) > 0)
    (if (some.isEmpty) names else some).flatMap { name =>
      now(name) += random.between(0L, 25L)
      Seq.fill(random.between(2, 7)) {
        number += 1
        name -> Row(s"k${random.nextInt(4)}", time(now(name) - random.between(0L, 29L)), number)
      }
    }
  }

  /** Whether to restart after a batch: now and then, in some chains always. */
  def restarts(batch: Int): Boolean = (seed + batch) % 4 == 0 || seed % 6 == 0

  /** One row per stream that is later than all others and matches none. */
  def end: Seq[(String, Row)] = names.map(name => name -> Row(s"end of $name", time(5000), End))

  private def time(minutes: Long): Timestamp = new Timestamp((Base + minutes * 60) * 1000)
}

private object RandomChain {
  val Delay = "30 minutes"
  val End = 99999

  private val Base = 1717200000L

  sealed trait Tree {
    def leaves: Seq[String]

    /** The inputs whose columns are still visible. */
    def visible: Seq[String]
  }

  final case class Leaf(name: String) extends Tree {
    override def leaves: Seq[String] = Seq(name)
    override def visible: Seq[String] = Seq(name)
    override def toString: String = name
  }

  final case class Node(
      left: Tree,
      right: Tree,
      joinType: JoinType,
      from: String,
      to: String,
      lowest: Int,
      highest: Int
  ) extends Tree {
    override def leaves: Seq[String] = left.leaves ++ right.leaves
    override def visible: Seq[String] =
      left.visible ++ (if (joinType.filtered.isDefined) Nil else right.visible)

    def condition: String =
      s"$from.id = $to.id AND $to.t BETWEEN $from.t + INTERVAL $lowest MINUTES AND $from.t + INTERVAL $highest MINUTES"

    override def toString: String = s"($left ${joinType.name} $right on $from $to $lowest $highest)"
  }
}
