package org.apache.spark.sql.streamjoin.observe.publish

import java.util.UUID

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkContext
import org.apache.spark.metrics.source.Source

/**
 * The figures of the queries that run in a driver, as gauges of Spark's metrics. All queries share
 * one source, for two reasons: Spark notices gauges that are added to its registry or removed from
 * it later, and when Spark removes a source, it also removes sources whose names start with the
 * same text.
 */
final private[publish] class FiguresSource extends Source {
  import FiguresSource._

  override val sourceName: String = FiguresSource.Name
  override val metricRegistry: MetricRegistry = new MetricRegistry

  private var queries = Map.empty[UUID, Shown]

  /**
   * Sets the figures of a query's last batch; figures that no longer exist are removed.
   *
   * @param id
   *   id of the query, the same in each run
   * @param query
   *   name of the query, or its id
   */
  def update(run: UUID, id: UUID, query: String, figures: Map[String, Long]): Unit = synchronized {
    val shown = queries.getOrElse(run, Shown(free(query, id), Map.empty))
    val (kept, gone) = shown.gauges.partition { case (name, _) => figures.contains(name) }
    gone.keys.foreach(name => metricRegistry.remove(full(shown.name, name)))
    kept.foreach { case (name, gauge) => gauge.value = figures(name) }
    val added = (figures -- kept.keys).map { case (name, value) =>
      name -> metricRegistry.register(full(shown.name, name), new Figure(value))
    }
    queries += run -> shown.copy(gauges = kept ++ added)
  }

  /** Removes the metrics of a query that has ended. */
  def remove(run: UUID): Unit = synchronized {
    for (shown <- queries.get(run); name <- shown.gauges.keys)
      metricRegistry.remove(full(shown.name, name))
    queries -= run
  }

  /** Queries of two sessions may have the same name, and two names may become equal. */
  private def free(query: String, id: UUID): String = {
    val name = MetricNames.part(query)
    Iterator(name, s"${name}_${MetricNames.unique(query)}", s"${name}_${id.toString.take(8)}")
      .find(each => !queries.values.exists(_.name == each))
      .getOrElse(s"${name}_${MetricNames.part(id.toString)}")
  }

  private def full(query: String, figure: String): String = query + MetricNames.Separator + figure
}

private[publish] object FiguresSource {
  val Name = "streamjoin"

  /** The source of a driver, registered on first use. */
  def of(context: SparkContext): FiguresSource = synchronized {
    val metrics = context.env.metricsSystem
    metrics.getSourcesByName(Name).collectFirst { case source: FiguresSource => source }.getOrElse {
      val source = new FiguresSource
      metrics.registerSource(source)
      source
    }
  }

  final private case class Shown(name: String, gauges: Map[String, Figure])

  final private class Figure(@volatile var value: Long) extends Gauge[Long] {
    override def getValue: Long = value
  }
}
