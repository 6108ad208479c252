package streamjoin.core

import scala.util.Random

import org.scalatest.Assertion

/** What must hold for every delta join, checked on random ones; a failure prints its seed. */
class DeltaJoinProperties extends RandomProperties(least = 200) {

  private case class Item(key: Option[Int], other: Int, value: Int)

  private type Changes = Seq[Seq[(Item, Long)]]

  /** Inputs, conditions and batches. */
  final private class Story(seed: Long) {
    private val random = new Random(seed)
    val inputs: Int = 2 + random.nextInt(4)
    private val keys = 1 + random.nextInt(4)

    /**
     * Every input has an equality with an earlier one; some joins add a condition on one or two
     * inputs.
     */
    val conditions: Seq[DeltaCondition[Item]] = {
      val ties = (1 until inputs).map { input =>
        val (byKey, to) = (random.nextBoolean(), random.nextInt(input))
        DeltaCondition.equal[Item](to, input)((_, item) => if (byKey) item.key else Some(item.other))
      }
      val (one, first, second) = (random.nextInt(inputs), random.nextInt(inputs), random.nextInt(inputs))
      val more = Seq(
        DeltaCondition[Item](Set(one), row => row(one).value != 1),
        DeltaCondition[Item](Set(first, second), row => row(first).value <= row(second).value + 1)
      )
      random.shuffle(ties ++ more.take(random.nextInt(3)))
    }

    private def item() = Item(
      Option.when(random.nextInt(6) > 0)(random.nextInt(keys)),
      random.nextInt(keys),
      random.nextInt(3)
    )

    /** Only rows that came before are removed. */
    val batches: Seq[Changes] = {
      var known = Vector.fill(inputs)(Vector.empty[Item])
      Seq.fill(8) {
        val changes = known.map { items =>
          if (random.nextInt(3) == 0) Nil
          else
            Seq.fill(random.nextInt(4)) {
              val isOld = items.nonEmpty && random.nextInt(2) == 0
              val row = if (isOld) items(random.nextInt(items.size)) else item()
              row -> (if (isOld) -1L else 1L) * (1 + random.nextInt(2))
            }
        }
        known = known.zip(changes).map { case (items, change) => items ++ change.map(_._1) }
        changes
      }
    }

    def join: DeltaJoin[Item] = new DeltaJoin(inputs, conditions)

    /** Filters all combinations of rows, without delta paths. */
    def product(collections: Seq[Copies[Item]]): Copies[Vector[Item]] = {
      val all = collections.foldLeft(Seq((Vector.empty[Item], 1L))) { (found, collection) =>
        for ((rows, copies) <- found; (row, more) <- collection.of.toSeq) yield (rows :+ row, copies * more)
      }
      Copies[Vector[Item]]() ++ all.filter { case (rows, _) => conditions.forall(_.holds(rows)) }
    }

    override def toString: String = s"$inputs inputs\n${batches.mkString("\n")}"
  }

  private def check(body: Story => Assertion): Assertion = forAllSeeds(seed => body(new Story(seed)))

  private def sumOf(batches: Seq[Changes], input: Int): Copies[Item] =
    batches.foldLeft(Copies[Item]())((sum, changes) => sum ++ changes(input))

  test("after every batch, the summed output is the join of the summed inputs") {
    check { story =>
      val join = story.join
      var sum = Copies[Vector[Item]]()
      story.batches.indices.foreach { at =>
        sum = sum ++ join.onBatch(story.batches(at)).of
        val inputs = (0 until story.inputs).map(sumOf(story.batches.take(at + 1), _))
        assert(join.collections == inputs, s"batch $at of $story")
        if (inputs.map(_.of.size.toLong).product <= 20000)
          assert(sum == story.product(inputs), s"batch $at of $story")
        assert(sum == join.result, s"batch $at of $story")
      }
      succeed
    }
  }

  test("neither the cut into batches nor the order of changes matters") {
    check { story =>
      val whole = story.join.onBatch(
        (0 until story.inputs).map(input => story.batches.flatMap(_(input)).reverse)
      )
      val join = story.join
      val single = for {
        changes <- story.batches
        input <- 0 until story.inputs
        change <- changes(input)
        out <- join.onBatch(Seq.tabulate(story.inputs)(i => if (i == input) Seq(change) else Nil)).of
      } yield out
      assert(Copies[Vector[Item]]() ++ single == whole, s"in $story")
    }
  }

  test("a batch without changes emits nothing, and taking back all changes leaves nothing") {
    check { story =>
      val join = story.join
      story.batches.foreach { changes =>
        join.onBatch(changes)
        assert(join.onBatch(Seq.fill(story.inputs)(Nil)).of.isEmpty)
      }
      val left = join.collections.map(_.of.toSeq.map { case (row, copies) => row -> -copies })
      val result = join.result
      assert(join.onBatch(left).of == result.of.map { case (row, copies) => row -> -copies })
      assert(join.result.of.isEmpty)
      assert(join.collections.forall(_.of.isEmpty))
    }
  }

  test("changes of one batch are joined once") {
    val join = new DeltaJoin[Int](3, (1 to 2).map(DeltaCondition.equal[Int](0, _)((_, row) => Some(row))))
    assert(join.onBatch(Seq.fill(3)(Seq(7 -> 1L))).of == Map(Vector(7, 7, 7) -> 1L))
    assert(join.onBatch(Seq.fill(3)(Seq(7 -> -1L))).of == Map(Vector(7, 7, 7) -> -1L))
    // Copies multiply: -2 * -2 * 3 = 12.
    assert(join.onBatch(Seq(Seq(7 -> -2L), Seq(7 -> -2L), Seq(7 -> 3L))).of == Map(Vector(7, 7, 7) -> 12L))
  }

  test("a missing key matches nothing") {
    val tie = DeltaCondition.equal[Option[Int]](0, 1)((_, row) => row)
    val join = new DeltaJoin[Option[Int]](2, Seq(tie))
    assert(join.onBatch(Seq(Seq(None -> 1L), Seq(None -> 1L))).of.isEmpty)
  }

  test("a row that is removed and added in one batch is not emitted") {
    val tie = DeltaCondition.equal[Int](0, 1)((_, row) => Some(row))
    val join = new DeltaJoin[Int](2, Seq(tie))
    join.onBatch(Seq(Seq(1 -> 1L), Seq(1 -> 1L)))
    assert(join.onBatch(Seq(Seq(1 -> -1L, 1 -> 1L), Nil)).of.isEmpty)
    // The left row gains a copy while its right match goes.
    assert(join.onBatch(Seq(Seq(1 -> 1L), Seq(1 -> -1L))).of == Map(Vector(1, 1) -> -1L))
  }
}
