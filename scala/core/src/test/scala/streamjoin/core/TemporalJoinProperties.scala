package streamjoin.core

import scala.util.Random

import org.scalatest.Assertion

import streamjoin.core.Output.{Alone, Joined, Late, Moved}

/** What must hold for every temporal join, checked on random ones; a failure prints its seed. */
class TemporalJoinProperties extends RandomProperties(least = 500) {

  private case class Timed(side: Side, key: Option[Int], time: Option[Long], isDelete: Boolean, id: Int)

  sealed private trait Event
  private case class Comes(row: Timed) extends Event
  private case class Passes(key: Int, watermark: Long) extends Event

  private type Processor = TemporalJoin[Timed]

  private val order: Ordering[Timed] = Ordering.by((row: Timed) => (!row.isDelete, row.id))

  private val inputs = Side.both.map(side => side -> Input[Timed]((row, _) => row.time)).toMap

  /** An outer join with the last version before a row. */
  private def plain(remembers: Long = Long.MaxValue): Processor = {
    val versions = Versions[Timed]((_, row) => row.key, _.isDelete, order, remembers)
    new TemporalJoin[Timed](true, AsOf(), inputs, versions)
  }

  /** A join and its events. */
  final private class Story(seed: Long) {
    private val random = new Random(seed)
    val isLeftOuter: Boolean = random.nextBoolean()
    val rule: AsOf = random.nextInt(6) match {
      case 0 | 1 => AsOf()
      case 5 => AsOf(history = 1L + random.nextInt(8))
      case 2 =>
        AsOf(AsOf.Backward, random.nextBoolean(), Option.when(random.nextBoolean())(random.nextInt(8).toLong))
      case 3 => AsOf(AsOf.Forward, random.nextBoolean(), Some(random.nextInt(8).toLong))
      case _ => AsOf(AsOf.Nearest, random.nextBoolean(), Some(random.nextInt(8).toLong))
    }
    private val deletes = rule.copy(history = 0) == AsOf()

    val events: Seq[Event] = (1 to 80).map { at =>
      if (random.nextInt(4) == 0) Passes(random.nextInt(2), at.toLong / 3 + random.nextInt(8))
      else {
        val side = Side.both(random.nextInt(2))
        val time = if (random.nextInt(25) == 0) None else Some(at.toLong / 3 + random.nextInt(12))
        val key = if (random.nextInt(25) == 0) None else Some(random.nextInt(3))
        Comes(Timed(side, key, time, deletes && side == Side.Right && random.nextInt(4) == 0, at))
      }
    }

    def processor(restored: TemporalJoinState[Timed] = TemporalJoinState()): Processor =
      new TemporalJoin[Timed](
        isLeftOuter,
        rule,
        inputs,
        Versions((_, row) => row.key, _.isDelete, order),
        condition = (left, right) => (left.id + right.id) % 7 != 0,
        restored
      )

    override def toString: String = s"$rule, ${if (isLeftOuter) "left outer" else "inner"}"
  }

  private def feed(processor: Processor, event: Event): Seq[Output[Timed]] = event match {
    case Comes(row) => processor.onRow(row.side, row)
    case Passes(key, watermark) => processor.onWatermark(key, watermark)
  }

  private val closing: Seq[Event] = Seq(Passes(0, 1000), Passes(1, 1000))

  private def check(body: Story => Assertion): Assertion = forAllSeeds(seed => body(new Story(seed)))

  /** The output of a left row, given all right rows so far, however old. */
  private def answer(story: Story, row: Timed, versions: Seq[Timed]): Option[Output[Timed]] = {
    val matched = for {
      key <- row.key
      at <- row.time
      own = versions.filter(version =>
        version.key.contains(key) && version.time.exists(story.rule.allows(at, _))
      )
      // Of several rows at the same time, the last one counts.
      newest = own.groupBy(_.time.get).values.map(_.max(order)).toSeq
      closest <- newest.minByOption(version => (math.abs(version.time.get - at), version.time.get))
      if !closest.isDelete && (row.id + closest.id) % 7 != 0
    } yield closest
    matched.map(Joined(row, _)).orElse(Option.when(story.isLeftOuter)(Alone(Side.Left, row)))
  }

  private def rows(outputs: Seq[Output[Timed]]): Seq[Output[Timed]] =
    outputs.filter { case Joined(_, _) | Alone(_, _) => true; case _ => false }

  test("each row matches what it would match if all rows so far were kept, late or not") {
    check { story =>
      val processor = story.processor()
      var known = Vector.empty[Timed]
      var out = Set.empty[Timed]
      (story.events ++ closing).foreach { event =>
        val outputs = feed(processor, event)
        val facts = outputs.collect {
          case Joined(row, _) => row
          case Alone(_, row) => row
        }
        assert(
          rows(outputs).map(_.toString) == facts.flatMap(answer(story, _, known)).map(_.toString),
          s"in $story"
        )
        assert(facts.forall(!out(_)), s"twice in $story")
        out ++= facts
        event match {
          case Comes(row) if row.side == Side.Right => known :+= row
          case _ =>
        }
      }
      val late = dropped(story)
      val facts = story.events.collect { case Comes(row) if row.side == Side.Left && !late(row) => row }
      assert(!story.isLeftOuter || out == facts.toSet, s"in $story")
    }
  }

  private def dropped(story: Story): Set[Timed] = {
    val processor = story.processor()
    story.events.flatMap(feed(processor, _)).collect { case Late(_, row) => row }.toSet
  }

  test("a late row is below what was emitted; a late version is also replaced, or no row needs it") {
    check { story =>
      val processor = story.processor()
      var taken = Vector.empty[Timed]
      story.events.foreach { event =>
        val emitted = processor.settled
        val needed = story.rule.needed(emitted)
        feed(processor, event).foreach {
          case Late(Side.Left, row) => assert(row.time.get < story.rule.output(emitted), s"in $story")
          case Late(_, row) =>
            assert(row.time.get < needed, s"in $story")
            val newer =
              taken.filter(v => v.key == row.key && v.time.exists(t => t > row.time.get && t < needed))
            assert(!story.rule.keepsNewest || newer.nonEmpty, s"in $story")
          case _ =>
        }
        event match {
          case Comes(row) if row.side == Side.Right => taken :+= row
          case _ =>
        }
      }
      succeed
    }
  }

  test("versions can come in pieces and in any order: later rows match the newest of their key") {
    forAllSeeds { seed =>
      val random = new Random(seed)
      val join = plain()
      val versions = random.shuffle(
        (1 to 40).map(at =>
          Timed(Side.Right, Some(random.nextInt(5)), Some(at.toLong), random.nextInt(4) == 0, at)
        )
      )
      // A version that is far ahead moves the watermark past all others.
      val pieces = versions.grouped(1 + random.nextInt(8)).zipWithIndex.toSeq
      pieces.foreach { case (piece, at) =>
        piece.foreach(join.onRow(Side.Right, _))
        join.onWatermark(1, 1000000L * (at + 1))
        join.onWatermark(0, 100L + at)
      }
      val facts = (0 until 5).map(key => Timed(Side.Left, Some(key), Some(200L), isDelete = false, 100 + key))
      facts.foreach(join.onRow(Side.Left, _))
      val expected = facts.map { fact =>
        val newest = versions.filter(_.key == fact.key).maxByOption(_.time.get)
        newest.filterNot(_.isDelete).fold[Output[Timed]](Alone(Side.Left, fact))(Joined(fact, _))
      }
      assert(rows(join.onWatermark(0, 201)) == expected)
    }
  }

  test("a deletion is remembered for the given time, and then nothing is kept of its key") {
    val join = plain(remembers = 10)
    def version(time: Long, isDelete: Boolean) =
      Timed(Side.Right, Some(0), Some(time), isDelete, time.toInt)
    def fact(time: Long) = Timed(Side.Left, Some(0), Some(time), isDelete = false, 100 + time.toInt)
    def passes(time: Long) = join.onWatermarks(Map(0 -> time, 1 -> time))
    Seq(version(1, isDelete = false), version(5, isDelete = true)).foreach(join.onRow(Side.Right, _))
    passes(20)
    assert(join.snapshot.versions.isEmpty)
    assert(join.snapshot.deletions.map(_._2) == Seq(30))
    val older = version(3, isDelete = false)
    assert(join.onRow(Side.Right, older) == Seq(Late(Side.Right, older)))
    join.onRow(Side.Left, fact(29))
    assert(rows(passes(30)) == Seq(Alone(Side.Left, fact(29))))
    passes(31)
    assert(join.snapshot.deletions.isEmpty)
    assert(join.onRow(Side.Right, older).isEmpty)
    join.onRow(Side.Left, fact(40))
    assert(rows(passes(41)) == Seq(Joined(fact(40), older)))
  }

  test("output times never go back, except with a history, nor below the output watermark") {
    check { story =>
      val processor = story.processor()
      var said = Watermark.Undefined
      var last = Watermark.Undefined
      def comes(time: Long) = {
        assert(time >= said)
        assert(time >= last || story.rule.history > 0)
        last = time
      }
      (story.events ++ closing).foreach { event =>
        feed(processor, event).foreach {
          case Joined(row, _) =>
            row.time.foreach(comes)
          case Alone(_, row) => row.time.foreach(comes)
          case Moved(_, watermark) => said = watermark
          case Late(_, _) =>
        }
      }
      succeed
    }
  }

  test("of versions that no row can match, at most the newest of a live key is kept") {
    check { story =>
      val processor = story.processor()
      story.events.foreach { event =>
        feed(processor, event)
        event match {
          case Passes(_, _) =>
            val limit = story.rule.needed(processor.settled)
            val past = processor.snapshot.versions.filter(_.time.exists(_ < limit))
            assert(past.map(_.key).distinct.size == past.size, s"in $story")
            assert(story.rule.keepsNewest || past.isEmpty, s"in $story")
            assert(!past.exists(_.isDelete), s"in $story")
          case Comes(_) =>
        }
      }
      succeed
    }
  }

  test("restarts after every event do not change the output") {
    check { story =>
      val whole = story.processor()
      var restarted = story.processor()
      (story.events ++ closing).foreach { event =>
        restarted = story.processor(restarted.snapshot)
        assert(feed(restarted, event) == feed(whole, event), s"in $story")
      }
      succeed
    }
  }

  test("the random joins cover every kind of output") {
    val outputs = (1L to 300L).flatMap { seed =>
      val processor = new Story(seed).processor()
      (new Story(seed).events ++ closing).flatMap(feed(processor, _))
    }
    def share(kind: PartialFunction[Output[Timed], Unit]) = outputs.count(kind.isDefinedAt)
    assert(share { case Joined(_, _) => } > 2000)
    assert(share { case Alone(_, _) => } > 500)
    assert(share { case Late(Side.Left, _) => } > 300)
    assert(share { case Late(Side.Right, _) => } > 100)
  }

  test("the example of the document: a delete ends a version, and nothing is kept of its key") {
    val row =
      (side: Side, time: Long, isDelete: Boolean) => Timed(side, Some(0), Some(time), isDelete, time.toInt)
    val (inserted, deleted) = (row(Side.Right, 2, false), row(Side.Right, 6, true))
    val (first, second) = (row(Side.Left, 5, false), row(Side.Left, 7, false))
    val join = plain()
    val seen = Seq(
      join.onWatermark(0, 1),
      join.onWatermark(1, 1),
      join.onRow(Side.Left, first),
      join.onRow(Side.Left, second),
      join.onWatermark(0, 10),
      join.onRow(Side.Right, inserted),
      join.onRow(Side.Right, deleted),
      join.onWatermark(1, 8)
    )
    assert(seen.init.flatten.forall(_ == Moved(0, 1)))
    assert(seen.last == Seq(Joined(first, inserted), Alone(Side.Left, second), Moved(0, 8)))
    assert(join.snapshot.versions.isEmpty, "nothing is kept of a deleted key")
  }
}
