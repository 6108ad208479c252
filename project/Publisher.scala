import sbt._

/** The publisher of streamjoin, from `project/publisher`. */
object Publisher {
  private lazy val names: Map[String, String] =
    IO.readLines(file("project/publisher"))
      .filterNot(_.startsWith("#"))
      .map { row =>
        val Array(name, value) = row.split(" ", 2)
        name -> value
      }
      .toMap

  def organization: String = names("organization")
  def group: String = names("group")
  def source: String = names("source")
}
