package streamjoin

import java.time.Duration

private[streamjoin] object Durations {
  private val MicrosPerSecond = 1000000L
  private val NanosPerMicro = 1000

  /** Converts a duration into text for `withWatermark`, rounded down to whole microseconds. */
  def text(duration: Duration): String = {
    val micros = Math.addExact(
      Math.multiplyExact(duration.getSeconds, MicrosPerSecond),
      (duration.getNano / NanosPerMicro).toLong
    )
    s"$micros microseconds"
  }
}
