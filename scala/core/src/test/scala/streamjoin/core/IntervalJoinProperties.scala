package streamjoin.core

import scala.util.Random

import org.scalatest.Assertion

import streamjoin.core.Output.{Alone, Joined, Late, Moved}

/**
 * What must hold for every join, checked on thousands of random ones; a failure prints its seed.
 */
class IntervalJoinProperties extends RandomProperties(least = 1000, perSeed = 15) {

  private type Processor = IntervalJoin[RandomRow]

  private def feed(processor: Processor, event: Event): Seq[Output[RandomRow]] = event match {
    case Arrival(row) => processor.onRow(row.side, row)
    case Advance(key, watermark) => processor.onWatermark(key, watermark)
  }

  private def close(join: RandomJoin, processor: Processor): Seq[Output[RandomRow]] =
    Side.both.flatMap(join.keys).flatMap(processor.onWatermark(_, 1000))

  private def rowsOut(outputs: Seq[Output[RandomRow]]): Seq[Output[RandomRow]] =
    outputs.filter { case Joined(_, _) | Alone(_, _) => true; case _ => false }

  private def lateRows(outputs: Seq[Output[RandomRow]]): Set[RandomRow] =
    outputs.collect { case Late(_, row) => row }.toSet

  private def assertSame(
      seen: Seq[Output[RandomRow]],
      expected: Seq[Output[RandomRow]],
      join: RandomJoin
  ): Assertion =
    assert(seen.map(_.toString).sorted == expected.map(_.toString).sorted, s"in $join")

  test("the random joins cover every kind of output") {
    val outputs = (1L to 1000L).flatMap { seed =>
      val join = RandomJoin(seed)
      val processor = join.processor()
      join.events().flatMap(feed(processor, _)) ++ close(join, processor)
    }
    def share(kind: PartialFunction[Output[RandomRow], Unit]) = outputs.count(kind.isDefinedAt)
    assert(share { case Joined(_, _) => } > 3000)
    assert(share { case Alone(_, _) => } > 3000)
    assert(share { case Late(_, _) => } > 1000)
    assert(share { case Moved(_, _) => } > 1000)
  }

  test(
    "not too much, not too little: a row is buffered exactly as long as a row that is not late can match it"
  ) {
    forAllSeeds { seed =>
      val join = RandomJoin(seed, JoinType.Inner)
      val processor = join.processor()
      val events = join.events()
      var seen = Seq.empty[RandomRow]
      events.foreach { event =>
        val late = lateRows(feed(processor, event))
        seen ++= Seq(event).collect { case Arrival(row) if !late(row) => row }
        val kept = Side.both.flatMap(processor.buffered).toSet
        seen.foreach { row =>
          if (!kept(row))
            assert(!join.hasPartner(row, processor.watermark), s"$row was removed too early in $join")
          else if (join.isConsistent(row))
            assert(join.hasPartner(row, processor.watermark), s"$row is kept for nothing in $join")
        }
      }
      succeed
    }
  }

  test("not too little: the lowest match that is not late still finds the buffered row") {
    forAllSeeds { seed =>
      val join = RandomJoin(seed, JoinType.Inner)
      val processor = join.processor()
      join.events().foreach(feed(processor, _))
      val state = processor.snapshot
      Side.both.flatMap(processor.buffered).filter(join.isConsistent).foreach { row =>
        val partner = join.lowestPartner(row, processor.watermark)
        val out = join.processor(state).onRow(partner.side, partner)
        val pair = if (row.side == Side.Left) Joined(row, partner) else Joined(partner, row)
        assert(out.contains(pair), s"with $row in the buffer of $join, $partner should have matched it")
      }
      succeed
    }
  }

  JoinType.all.foreach { joinType =>
    test(s"${joinType.name}: the whole output is the batch join of the rows that were not late") {
      forAllSeeds { seed =>
        val join = RandomJoin(seed, joinType)
        val processor = join.processor()
        val events = join.events()
        val outputs = events.flatMap(feed(processor, _)) ++ close(join, processor)
        val late = lateRows(outputs)
        assertSame(
          rowsOut(outputs),
          join.answer(events.collect { case Arrival(row) if !late(row) => row }),
          join
        )
        assert(Side.both.forall(processor.buffered(_).isEmpty), s"rows stay forever in $join")
      }
    }
  }

  test("if no row is late, the cut into batches does not change the output") {
    forAllSeeds { seed =>
      val join = RandomJoin(seed)
      val random = new Random(seed + 1)
      val rows = join.events().collect { case Arrival(row) => row }
      val processor = join.processor()
      val cuts = (0 +: rows.indices.tail.filter(_ => random.nextInt(4) == 0)) :+ rows.size
      var last = Map.empty[Int, Long]
      val outputs = cuts.zip(cuts.tail).flatMap { case (from, until) =>
        // As in Spark, rows of this batch may be below the watermark that evicts after it; later
        // rows are not.
        val next = watermarksOver(join, rows.drop(until), last, random)
        val (left, right) = rows.slice(from, until).partition(_.side == Side.Left)
        val out = processor.onBatch(left, right, last.getOrElse(_, Watermark.Undefined), next)
        last = next
        out
      } ++ close(join, processor)
      assert(lateRows(outputs).isEmpty, s"in $join")
      assertSame(rowsOut(outputs), join.answer(rows), join)
    }
  }

  /** Watermarks that none of these rows is below; they do not go back and may lag behind. */
  private def watermarksOver(
      join: RandomJoin,
      rows: Seq[RandomRow],
      last: Map[Int, Long],
      random: Random
  ): Map[Int, Long] =
    Side.both
      .flatMap(join.keys)
      .flatMap { key =>
        val lowest = rows.flatMap(_.times.get(key).flatten).minOption.map(_ - random.nextInt(3))
        (lowest ++ last.get(key)).maxOption.map(key -> _)
      }
      .toMap

  test("no output row is below the output watermark that was emitted before it") {
    forAllSeeds { seed =>
      val join = RandomJoin(seed)
      val processor = join.processor()
      val keys = Side.both.flatMap(join.keys)
      var emitted = Map.empty[Int, Long].withDefaultValue(Watermark.Undefined)
      (join.events() ++ keys.map(Advance(_, 1000L))).foreach { event =>
        feed(processor, event).foreach {
          case Joined(left, right) => checkTimes(left.times ++ right.times)
          case Alone(_, row) => checkTimes(row.times)
          case Late(_, _) => ()
          case Moved(key, watermark) =>
            assert(watermark > emitted(key), s"the output watermark of $key went back in $join")
            emitted += key -> watermark
        }
        def checkTimes(times: Map[Int, Option[Long]]): Unit = times.foreach { case (key, time) =>
          assert(
            time.forall(_ >= emitted(key)),
            s"$times after the watermark ${emitted(key)} of $key in $join"
          )
        }
        keys.foreach(key => assert(processor.outputWatermark(key) == emitted(key), s"of $key in $join"))
      }
      succeed
    }
  }

  test("a processor restored from a snapshot continues as the old one would have, at any point") {
    forAllSeeds { seed =>
      val join = RandomJoin(seed)
      val events = join.events()
      val uninterrupted = join.processor()
      val point = new Random(seed + 1).nextInt(events.size)
      events.take(point).foreach(feed(uninterrupted, _))
      val restored = join.processor(uninterrupted.snapshot)
      assert(restored.snapshot == uninterrupted.snapshot)
      val rest = events.drop(point)
      def continued(processor: Processor) = rest.flatMap(feed(processor, _)) ++ close(join, processor)
      assert(continued(restored) == continued(uninterrupted), s"from event $point on, in $join")
    }
  }
}
