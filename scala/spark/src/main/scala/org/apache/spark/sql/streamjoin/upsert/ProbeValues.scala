package org.apache.spark.sql.streamjoin.upsert

import java.time.{Instant, LocalDate, LocalDateTime, ZoneId, ZoneOffset}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types._

/**
 * Values of a type that Spark distinguishes but that a column of a database may not: a collation
 * makes texts equal, or a column rounds or pads.
 */
private[upsert] object ProbeValues {

  /**
   * @param zone
   *   time zone of the JVM, in which database drivers write times
   */
  def of(dataType: DataType, zone: ZoneId = ZoneId.systemDefault): Seq[Any] = dataType match {
    case _: StringType => Texts
    case BinaryType => Seq(Array[Byte](1), Array[Byte](1, 0), Array[Byte](1, ' '.toByte), Array[Byte](2))
    case BooleanType => Seq(false, true)
    case ByteType => Seq[Byte](1, 2, Byte.MaxValue - 1, Byte.MaxValue)
    case ShortType => Seq[Short](1, 2, Short.MaxValue - 1, Short.MaxValue)
    case IntegerType => Seq(1, 2, Int.MaxValue - 1, Int.MaxValue)
    case LongType => Seq(1L, 2L, Long.MaxValue - 1, Long.MaxValue)
    case FloatType => Seq(1.0f, Math.nextUp(1.0f), 0.1f, Math.nextUp(0.1f))
    case DoubleType => Seq(1.0, Math.nextUp(1.0), 0.1, Math.nextUp(0.1))
    case decimal: DecimalType => decimals(decimal)
    case DateType => Seq(LocalDate.of(2026, 1, 1), LocalDate.of(2026, 1, 2))
    case TimestampType => instants(zone)
    case TimestampNTZType => localTimes(zone)
    case _ => Nil
  }

  /** Case, accents, width, alphabets, letters that sort as two, blanks, and the empty string. */
  private val Texts =
    Seq(
      "x",
      "X",
      "x ",
      "x  ",
      "",
      "e",
      "\u00e9",
      "e\u0301",
      "ss",
      "\u00df",
      "\uff58",
      "\u3042",
      "\u30a2",
      "x\u200b"
    )

  private def decimals(of: DecimalType): Seq[Any] = {
    def scaled(digits: BigInt) = new java.math.BigDecimal(digits.bigInteger, of.scale)
    val most = BigInt(10).pow(of.precision) - 1
    Seq(BigInt(1), BigInt(2), most - 1, most).distinct.map(scaled)
  }

  private val Noon = LocalDateTime.of(2026, 1, 1, 12, 0)

  /** Both instants of an hour that a clock shows twice. */
  private def instants(zone: ZoneId): Seq[Any] = {
    val noon = Noon.toInstant(ZoneOffset.UTC)
    val twice = changes(zone).find(_.isOverlap).toSeq.flatMap { change =>
      Seq(
        change.getInstant.minusSeconds(60),
        change.getInstant.minusSeconds(60).plus(change.getDuration.negated)
      )
    }
    Seq(noon, noon.plusNanos(1000), noon.plusNanos(2000)) ++ twice
  }

  /** A time that a clock skips, and the time that it shows instead. */
  private def localTimes(zone: ZoneId): Seq[Any] = {
    val never = changes(zone).find(_.isGap).toSeq.flatMap { change =>
      val left = change.getDateTimeBefore.plusSeconds(60)
      Seq(left, left.plus(change.getDuration))
    }
    Seq(Noon, Noon.plusNanos(1000), Noon.plusNanos(2000)) ++ never
  }

  /** The next changes of the clock, or the last ones. */
  private def changes(zone: ZoneId) = {
    val rules = zone.getRules
    val since = Instant.parse("2026-01-01T00:00:00Z")
    Iterator
      .iterate(Option(rules.nextTransition(since)))(
        _.flatMap(at => Option(rules.nextTransition(at.getInstant)))
      )
      .take(4)
      .flatten
      .toSeq ++ rules.getTransitions.asScala.reverse
  }
}
