package streamjoin.core

import org.scalacheck.{Gen, Shrink}
import org.scalactic.anyvals.PosInt
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Properties of random joins; a failure prints its seed. `make test` has a quarter of the joins.
 *
 * @param least
 *   number of joins in `make test-long`, unless `STREAMJOIN_SEEDS` asks for more
 * @param perSeed
 *   for how many joins each requested seed counts, as one takes less than a millisecond here
 */
abstract private[core] class RandomProperties(least: Int, perSeed: Int = 10)
    extends AnyFunSuite
    with ScalaCheckPropertyChecks {

  private def seeds: Int =
    sys.env.get("STREAMJOIN_SEEDS").fold(least / 4)(number => math.max(least, number.toInt * perSeed))

  implicit override val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = PosInt.ensuringValid(seeds))

  implicit private val noShrink: Shrink[Long] = Shrink.shrinkAny

  protected def forAllSeeds(check: Long => Assertion): Assertion = forAll(Gen.long)(check)
}
