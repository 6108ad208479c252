package streamjoin.core

import scala.util.Random

import org.scalatest.Assertion

import streamjoin.core.Output.{Alone, Joined, Late, Moved}

/** What must hold for every window join, checked on random ones; a failure prints its seed. */
class WindowJoinProperties extends RandomProperties(least = 500) {

  private case class Timed(side: Side, key: Int, time: Option[Long], id: Int)

  sealed private trait Event
  private case class Comes(row: Timed) extends Event
  private case class Passes(key: Int, watermark: Long) extends Event

  private type Processor = WindowJoin[Timed]

  /** A join and its events. */
  final private class Story(seed: Long) {
    private val random = new Random(seed)
    private def window = JoinWindow(1L + random.nextInt(12), random.nextBoolean())
    val joinType: JoinType = JoinType.all(random.nextInt(JoinType.all.size))
    val windows: JoinWindows = JoinWindows(random.nextInt(3) match {
      case 0 => Map(Side.Left -> window)
      case 1 => Map(Side.Right -> window)
      case _ => Map(Side.Left -> window, Side.Right -> window)
    })

    val events: Seq[Event] = (1 to 60).map { at =>
      if (random.nextInt(4) == 0) Passes(random.nextInt(2), at.toLong / 2 + random.nextInt(10))
      else {
        val side = Side.both(random.nextInt(2))
        val time = if (random.nextInt(20) == 0) None else Some(at.toLong / 2 + random.nextInt(15))
        Comes(Timed(side, random.nextInt(2), time, at))
      }
    }

    private val inputs = Side.both.map(side => side -> Input[Timed]((row, _) => row.time)).toMap

    def processor(restored: WindowJoinState[Timed] = WindowJoinState()): Processor =
      new WindowJoin[Timed](joinType, windows, inputs, (left, right) => left.key == right.key, restored)

    override def toString: String = s"$joinType, $windows"
  }

  private def feed(processor: Processor, event: Event): Seq[Output[Timed]] = event match {
    case Comes(row) => processor.onRow(row.side, row)
    case Passes(key, watermark) => processor.onWatermark(key, watermark)
  }

  private val closing: Seq[Event] = Seq(Passes(0, 1000), Passes(1, 1000))

  private def rows(outputs: Seq[Output[Timed]]): Seq[Output[Timed]] =
    outputs.filter { case Joined(_, _) | Alone(_, _) => true; case _ => false }

  private def check(body: Story => Assertion): Assertion = forAllSeeds(seed => body(new Story(seed)))

  test("the rowtimes of the output never go back") {
    check { story =>
      val processor = story.processor()
      val times = (story.events ++ closing).flatMap(feed(processor, _)).flatMap(processor.rowtime)
      assert(times == times.sorted, s"in $story")
    }
  }

  test("the rows are those of the underlying join, and none is left waiting at the end") {
    check { story =>
      val ordered = story.processor()
      val plain = story.processor().join
      val (seen, expected) = (story.events ++ closing).map { event =>
        val below = event match {
          case Comes(row) => plain.onRow(row.side, row)
          case Passes(key, watermark) => plain.onWatermark(key, watermark)
        }
        (rows(feed(ordered, event)), rows(below))
      }.unzip
      assert(seen.flatten.map(_.toString).sorted == expected.flatten.map(_.toString).sorted, s"in $story")
    }
  }

  test("a row waits only while an earlier one can still come or a watermark is missing") {
    check { story =>
      val processor = story.processor()
      story.events.foreach { event =>
        feed(processor, event)
        val waiting = processor.snapshot.waiting.map(_._1)
        val marks = Seq(0, 1).map(processor.join.watermark)
        waiting.filter(time => marks.forall(_ >= time)).foreach { time =>
          // A buffered row could match one that is not late.
          val kept = processor.join.buffered(Side.Left) ++ processor.join.buffered(Side.Right)
          val earlier = kept.exists { row =>
            val partners = marks(row.side.other.index) to marks(row.side.other.index) + 30
            partners.exists { other =>
              val (left, right) = if (row.side == Side.Left) (row.time.get, other) else (other, row.time.get)
              val rowtime =
                if (story.joinType.filtered.isDefined) left + story.windows.behind(Side.Left)
                else story.windows.rowtime(left, right)
              story.windows.within(left, right) && rowtime < time
            }
          }
          assert(earlier, s"a row of $time waits for nothing in $story")
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
      val story = new Story(seed)
      val processor = story.processor()
      (story.events ++ closing).flatMap(feed(processor, _))
    }
    def share(kind: PartialFunction[Output[Timed], Unit]) = outputs.count(kind.isDefinedAt)
    assert(share { case Joined(_, _) => } > 2000)
    assert(share { case Alone(_, _) => } > 1000)
    assert(share { case Late(_, _) => } > 500)
    assert(share { case Moved(_, _) => } > 500)
  }
}
