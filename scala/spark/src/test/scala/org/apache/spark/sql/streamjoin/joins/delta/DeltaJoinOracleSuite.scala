package org.apache.spark.sql.streamjoin.joins.delta

import java.nio.file.Path

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest, SparkTest}

import streamjoin.core.{Copies, DeltaCondition, DeltaJoin}

/**
 * Random changelogs, updates and append-only rows, joined by queries that stop, restart and replay
 * batches anywhere: after each batch, the summed output is the core's join of the current rows.
 */
class DeltaJoinOracleSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._
  import DeltaJoinOracleSuite._

  private val seeds = SparkTest.seeds(default = 1)
  private val first = sys.env.get("STREAMJOIN_FIRST_SEED").fold(0)(_.toInt)

  private val kinds = Seq(
    Set.empty[Int] -> "",
    Set(0) -> "left outer, ",
    Set(1) -> "right outer, ",
    Set(0, 1) -> "full outer, "
  )

  for {
    (outer, name) <- SparkTest.part(kinds, every = 3)
    seed <- first until first + (if (outer.nonEmpty) (seeds + 1) / 2 else seeds)
  } test(s"${name}seed $seed: the output adds up to the join of the inputs") {
    val story = new Story(seed, outer)
    try story.run()
    catch {
      case error: Throwable => throw new AssertionError(s"seed $seed: ${story.log}", error)
    } finally story.stop()
    succeed
  }

  /** An input, with the rows that each version should have. */
  final private class Table(val name: String, kind: Int, random: Random) {
    private val isChangelog = kind <= 1
    private val composite = random.nextBoolean()
    private val keys = Seq(Seq("id"), Seq("k")) ++ Option.when(composite)(Seq("k", "v"))
    val maintained: Maintainer = kind match {
      case 0 =>
        maintainer("id INT, k INT, v INT, at LONG, op STRING", keys, op = Some("op"), time = Some("at"))
      case 1 => maintainer("id INT, k INT, v INT, at LONG, op STRING", keys, op = Some("op"))
      case 2 => maintainer("id INT, k INT, v INT, at LONG, d INT", keys, diff = Some("d"))
      case _ => maintainer("id INT, k INT, v INT, at LONG", keys)
    }
    override def toString: String = s"$name:${Seq("timed", "changelog", "updates", "append")(kind)}"

    var versions: Vector[Copies[Item]] = Vector.empty
    private var unknown = (0L, 0L)
    private var clock = 0L
    private def now: Copies[Item] = versions.lastOption.getOrElse(Copies())

    private def item(): Item = {
      clock += 1
      Item(
        Option.when(random.nextInt(12) > 0)(random.nextInt(5)),
        Option.when(random.nextInt(8) > 0)(random.nextInt(3)),
        random.nextInt(3),
        clock
      )
    }

    def feed(): Unit = {
      val size = random.nextInt(5)
      if (isChangelog) {
        val drawn = Seq.fill(size) {
          val op = Seq("insert", "update", "delete", "U", " D ", "c")(random.nextInt(6))
          item() -> op
        }
        // Without a time, nothing says which of several changes of a key is the last.
        val changes = if (kind == 0) drawn else drawn.distinctBy(_._1.id)
        versions :+= after(changes)
        maintained.feed(random.shuffle(changes).map { case (i, op) => i.row(op) }: _*)
      } else {
        val present = now.of.keys.toIndexedSeq
        val changes = Seq.fill(size) {
          if (kind == 2 && present.nonEmpty && random.nextBoolean())
            present(random.nextInt(present.size)) -> (-1 - random.nextInt(2))
          else item() -> (if (kind == 2) random.nextInt(3) else 1)
        }
        versions :+= now ++ changes.map { case (item, copies) => item -> copies.toLong }
        maintained.feed(changes.map { case (item, copies) =>
          if (kind == 2) item.row(copies) else item.row()
        }: _*)
      }
      val newest = maintained.folder.newest
      // Without rows there may be no batch.
      if (size == 0 && newest == versions.size - 2L) versions = versions.init
      assert(newest == versions.size - 1L)
      checkUnknown()
    }

    /** The last change of a key wins, by time; without one, a batch has each key once. */
    private def after(changes: Seq[(Item, String)]): Copies[Item] = {
      def isDelete(op: String) = op.trim.toLowerCase.startsWith("d")
      val before = now
      changes.groupBy(_._1.id).foldLeft(before) { case (sum, (id, ofKey)) =>
        val sorted = ofKey.sortBy { case (item, op) =>
          (if (kind == 0) item.at else 0L, !isDelete(op), item.k.fold(-1)(identity), item.v, item.at)
        }
        val old = before.of.toSeq.filter(_._1.id == id)
        if (old.isEmpty) sorted.head._2.trim.toLowerCase.head match {
          case 'u' => unknown = (unknown._1 + 1, unknown._2)
          case 'd' => unknown = (unknown._1, unknown._2 + 1)
          case _ =>
        }
        val gone = sum ++ old.map { case (item, copies) => item -> -copies }
        val (last, op) = sorted.last
        if (isDelete(op)) gone else gone + (last, 1)
      }
    }

    private def checkUnknown(): Unit = if (isChangelog && versions.nonEmpty) {
      val counts = maintained.folder.manifest(versions.size - 1L).counts
      val seen = (counts("updatesOfUnknownKeys"), counts("deletesOfUnknownKeys"))
      assert(seen == unknown, s"$this: unknown keys")
    }

    /** Compares what a batch query reads at a random version. */
    def checkRows(): Unit = if (versions.nonEmpty) {
      val at = random.nextInt(versions.size)
      val expected = versions(at).of.toSeq.flatMap { case (item, copies) =>
        Seq.fill(math.max(0, copies.toInt))(JoinTest.text(item.row()))
      }.sorted
      assert(rowsOf(maintained.root, Some(at.toLong)) == expected, s"$this, version $at")
    }

    /** As if the driver had died before it wrote the newest version, which is written again. */
    def loseVersion(): Unit = if (versions.nonEmpty) {
      maintained.stop()
      val last = SparkTest.forgetCommit(maintained.checkpoint)
      SparkTest.remove(Path.of(maintained.root, "versions", last.toString))
      forgetIndexes()
      maintained.start()
      maintained.settle()
    }
  }

  final private class Story(seed: Int, outer: Set[Int]) {
    private val random = new Random(seed)
    val log: StringBuilder = new StringBuilder
    private val count = if (outer.nonEmpty) 2 else 2 + random.nextInt(4)
    private val distinct = Seq.tabulate(count)(i => new Table(s"t$i", random.nextInt(4), random))

    /** Sometimes a table is joined with itself. */
    private val inputs: IndexedSeq[Table] =
      (if (random.nextInt(3) == 0) distinct.init :+ distinct.head else distinct).toIndexedSeq
    private val tables = inputs.distinct
    private def alias(i: Int) = s"i$i"

    /** Each input has an equality with an earlier one, on a key of both. */
    private val (on, conditions) = {
      val ties = (1 until inputs.size).map { i =>
        val j = random.nextInt(i)
        val (mine, other) = (random.nextInt(2), random.nextInt(2))
        val nullSafe = random.nextInt(4) == 0
        val names = Seq("id", "k")
        val text = s"${alias(i)}.${names(mine)} ${if (nullSafe) "<=>" else "="} ${alias(j)}.${names(other)}"
        val holds = DeltaCondition[Item](
          Set(i, j),
          row => {
            val (a, b) = (row(i).column(mine), row(j).column(other))
            a == b && (nullSafe || a.isDefined)
          }
        )
        text -> holds
      }
      val more = Seq.fill(random.nextInt(3)) {
        val (i, j) = (random.nextInt(inputs.size), random.nextInt(inputs.size))
        random.nextInt(4) match {
          case 0 => s"${alias(i)}.v <> 1" -> DeltaCondition[Item](Set(i), row => row(i).v != 1)
          case 1 =>
            s"${alias(i)}.v <= ${alias(j)}.v + 1" ->
              DeltaCondition[Item](Set(i, j), row => row(i).v <= row(j).v + 1)
          case 2 =>
            s"${alias(i)}.v = ${alias(j)}.v" ->
              DeltaCondition[Item](Set(i, j), row => row(i).v == row(j).v)
          case _ =>
            s"${alias(i)}.k IS NOT NULL" -> DeltaCondition[Item](Set(i), row => row(i).k.isDefined)
        }
      }
      val all = random.shuffle(ties ++ more)
      (all.map(_._1).mkString(" AND "), all.map(_._2))
    }

    private val columns = inputs.indices.flatMap(i => Seq("id", "k", "v", "at").map(i -> _)).filter {
      case (_, "at") => random.nextInt(4) == 0
      case _ => random.nextInt(3) > 0
    } match {
      case Seq() => Seq(0 -> "id")
      case some => some
    }
    private val hasTime = inputs.forall(_.toString.endsWith("timed"))

    private def newReader(options: Map[String, String]) = deltaJoin(
      inputs.indices.map(i => alias(i) -> inputs(i).maintained),
      on,
      // A time of its own would part rows that are one.
      columns.map { case (i, name) => s"${alias(i)}.$name AS c_${i}_$name" },
      options,
      outer.toSeq.sorted match {
        case Seq() => "inner"
        case Seq(0) => "left"
        case Seq(1) => "right"
        case _ => "full"
      }
    )

    private def say(what: String): Unit = log.append(what).append(' '): Unit
    say(
      s"${inputs.mkString(if (outer.isEmpty) "," else outer.mkString(" outer ", " ", " "))} on $on select $columns:"
    )

    private var readers = Seq(newReader(Map.empty))

    private def expected(versions: Seq[Long]): Map[String, Long] = {
      val join = new DeltaJoin[Item](inputs.size, conditions)
      val collections = inputs.zip(versions).map { case (table, version) =>
        if (version < 0) Nil else table.versions(version.toInt).of.toSeq
      }
      val matched = join.onBatch(collections).of.toSeq
      (matched.map { case (rows, copies) => (rows.lift, copies) } ++ outer.flatMap(unmatched(collections, _)))
        .groupMapReduce { case (rows, _) =>
          JoinTest.text(Row.fromSeq(columns.map { case (i, name) =>
            rows(i).map(_.value(name)).orNull
          }))
        }(_._2)(_ + _)
        .filter(_._2 != 0)
    }

    /** The rows of an input without a match in the other one. */
    private def unmatched(
        collections: Seq[Seq[(Item, Long)]],
        of: Int
    ): Seq[(Int => Option[Item], Long)] =
      collections(of).collect {
        case (row, copies) if collections(1 - of).collect {
              case (other, more)
                  if conditions.forall(_.holds(if (of == 0) Vector(row, other) else Vector(other, row))) =>
                more
            }.sum == 0 =>
          ((i: Int) => Option.when(i == of)(row)) -> copies
      }

    private var checked = Map.empty[Reader, Long].withDefaultValue(-1L)

    /** Checks each batch since the last check. */
    private def check(reader: Reader): Unit = {
      reader.settle()
      reader.batches.keys.filter(_ > checked(reader)).toSeq.foreach { batch =>
        reader.versions(batch, inputs.size).foreach { versions =>
          val sum = reader.sum(batch)
          // The time is not part of a row.
          val seen =
            if (!hasTime) sum
            else
              sum.toSeq
                .groupMapReduce(_._1.split(" ").init.mkString(" "))(_._2)(_ + _)
                .filter(_._2 != 0)
          assert(seen == expected(versions), s"batch $batch at $versions")
        }
        checked += reader -> batch
      }
      val last = reader.batches.keys.lastOption
      last.flatMap(reader.versions(_, inputs.size)).foreach { versions =>
        assert(versions == inputs.map(_.versions.size - 1L), "not at the newest versions")
      }
    }

    def run(): Unit = {
      tables.foreach(_.maintained.start())
      readers.foreach(_.start())
      for (_ <- 0 until (if (SparkTest.isLong) 22 else 14)) {
        val table = tables(random.nextInt(tables.size))
        val reader = readers(random.nextInt(readers.size))
        random.nextInt(16) match {
          case n if n < 6 =>
            val most = 1 + random.nextInt(3)
            say(s"feed ${table.name} $most")
            (0 until most).foreach(_ => table.feed())
          case n if n < 9 => say("check"); readers.foreach(check)
          case 9 => say("restart reader"); reader.restart()
          case 10 =>
            if (reader.batches.nonEmpty) {
              say("replay reader")
              check(reader)
              reader.replay()
              check(reader)
            }
          case 11 => say(s"restart ${table.name}"); table.maintained.restart()
          case 12 =>
            if (table.versions.nonEmpty) {
              say(s"replay ${table.name}")
              table.maintained.replay()
            }
          case 13 => say("forget"); forgetIndexes()
          case 14 =>
            // No reader has seen the version: once written again it has another id.
            say(s"lose ${table.name}")
            readers.foreach { reader => check(reader); reader.stop() }
            val before = table.versions.size
            table.feed()
            if (table.versions.size > before) table.loseVersion()
            readers.foreach(_.start())
          case _ =>
            say(s"read ${table.name}")
            table.checkRows()
            if (readers.size < 3) {
              val options = Seq(
                Map("maxVersionsPerTrigger" -> "1"),
                Map("maxRowsPerTrigger" -> "2"),
                Map("maxRowsPerTrigger" -> "3", "maxVersionsPerTrigger" -> "2")
              )(random.nextInt(3))
              say(s"new reader $options")
              readers :+= newReader(options).start()
            }
        }
      }
      say("end")
      readers.foreach(check)
      tables.foreach(_.checkRows())
    }

    def stop(): Unit = (readers ++ tables.map(_.maintained)).foreach(_.stop())
  }
}

private object DeltaJoinOracleSuite {
  final case class Item(id: Option[Int], k: Option[Int], v: Int, at: Long) {
    def column(number: Int): Option[Int] = if (number == 0) id else k

    def value(name: String): Any = name match {
      case "id" => orNull(id)
      case "k" => orNull(k)
      case "v" => v
      case _ => at
    }

    def row(more: Any*): Row = Row.fromSeq(Seq(orNull(id), orNull(k), v, at) ++ more)

    private def orNull(value: Option[Int]): Any = value.map(Int.box).orNull
  }
}
