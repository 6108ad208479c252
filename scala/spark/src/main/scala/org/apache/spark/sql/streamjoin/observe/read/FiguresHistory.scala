package org.apache.spark.sql.streamjoin.observe.read

import java.io.{BufferedInputStream, IOException, InputStream, OutputStream}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.TimeUnit.SECONDS

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.io.IOUtils

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * The figures of a query's batches in files that outlive the query: `<folder>/<query id>/` has
 * files of JSON lines, one line per batch, and the name of a file describes its contents
 * ([[HistoryFile]]). Object stores cannot append, so no file is written twice: every ten seconds,
 * and at the end of a run, new lines go into a new file, and ten files of similar size are merged
 * into one, until it has a thousand lines. So each line is written at most four times, the number
 * of files stays small, and a reader has to read only the new files.
 *
 * @param most
 *   minimum number of batches that are kept; files of older ones are removed
 * @param maxAge
 *   in milliseconds; files whose last batch is older are removed
 */
final private[streamjoin] class FiguresHistory(
    folder: Path,
    hadoopConf: Configuration,
    most: Int,
    maxAge: Option[Long] = None
) {
  import FiguresHistory._

  private val files = CheckpointFileManager.create(folder, hadoopConf)
  private var lines = Vector.empty[String]
  private var writtenAt = Option.empty[Long]

  /**
   * The files in the folder, in order. It is listed once, because a query has only one run at a
   * time, and again after a failure.
   */
  private var known = Option.empty[Vector[HistoryFile]]

  /**
   * @param now
   *   time of a monotonic clock, in nanoseconds
   * @param time
   *   time of the batch, in milliseconds since 1970
   */
  def add(line: String, now: Long, time: Long): Unit = {
    // If writing fails, the last lines are written again later.
    lines = (lines :+ line).takeRight(HistoryFile.Full)
    if (writtenAt.forall(now - _ >= SECONDS.toNanos(Interval))) {
      write(time)
      writtenAt = Some(now)
    }
  }

  /** Writes the lines that have not been written yet. */
  def write(time: Long): Unit = if (lines.nonEmpty) {
    val before = known.getOrElse(found())
    known = None
    val file = HistoryFile(before.lastOption.fold(0L)(_.end), lines.size, time)
    write(file)(_.write(lines.mkString("", "\n", "\n").getBytes(UTF_8)))
    lines = Vector.empty
    known = Some(purged(merged(before :+ file), time))
  }

  @tailrec
  private def merged(all: Vector[HistoryFile]): Vector[HistoryFile] = HistoryFile.toMerge(all) match {
    case None => all
    case Some(small) =>
      val large = small.head.copy(lines = small.map(_.lines).sum, time = small.map(_.time).max)
      write(large)(out => small.foreach(copy(_, out)))
      // A reader that finds both files reads the larger one.
      small.foreach(file => files.delete(path(file)))
      merged(all.dropRight(small.size) :+ large)
  }

  private def purged(all: Vector[HistoryFile], now: Long): Vector[HistoryFile] = {
    val (old, kept) = HistoryFile.toPurge(all, most, maxAge.map(now - _))
    old.foreach(file => files.delete(path(file)))
    kept
  }

  private def path(file: HistoryFile) = new Path(folder, file.name)

  private def copy(file: HistoryFile, out: OutputStream): Unit = {
    val in = files.open(path(file))
    try IOUtils.copyBytes(in, out, hadoopConf, false)
    finally in.close()
  }

  private def write(file: HistoryFile)(content: OutputStream => Unit): Unit = {
    val out = files.createAtomic(path(file), overwriteIfPossible = true)
    try {
      content(out)
      out.close()
    } catch {
      case failed: Throwable =>
        out.cancel()
        throw failed
    }
  }

  private def found(): Vector[HistoryFile] =
    if (!files.exists(folder)) {
      files.mkdirs(folder)
      Vector.empty
    } else {
      val names = files.list(folder).toSeq.map(_.getPath.getName)
      val all = names.flatMap(HistoryFile.of)
      val known = HistoryFile.inOrder(all)
      // A run ended before it removed the files that it had merged.
      all.diff(known).foreach(file => files.delete(path(file)))
      // An older version named its files by their first batches.
      names
        .filter(_.matches(OfOlderVersion))
        .sorted
        .foldLeft(known)((files, name) => files :+ renamed(name, files))
    }

  private def renamed(name: String, before: Vector[HistoryFile]): HistoryFile = {
    val path = new Path(folder, name)
    val system = path.getFileSystem(hadoopConf)
    val in = files.open(path)
    val count =
      try linesOf(in)
      finally in.close()
    val file =
      HistoryFile(before.lastOption.fold(0L)(_.end), count, system.getFileStatus(path).getModificationTime)
    if (!system.rename(path, this.path(file))) throw new IOException(s"$path cannot be renamed")
    file
  }

  private def linesOf(in: InputStream): Int = {
    val bytes = new BufferedInputStream(in, 1 << 16)
    Iterator.continually(bytes.read()).takeWhile(_ >= 0).count(_ == '\n')
  }
}

private[streamjoin] object FiguresHistory {
  private val OfOlderVersion = """\d{10}\.jsonl"""

  /** In seconds. */
  private val Interval = 10L
}

/**
 * A file of a history, identified by its name: `<first line>-<lines>-<time>.jsonl`. Lines are
 * counted from the first line that the query ever wrote to the folder.
 *
 * @param time
 *   time of the last batch, in milliseconds since 1970
 */
final private[streamjoin] case class HistoryFile(first: Long, lines: Int, time: Long) {
  def end: Long = first + lines
  def name: String = f"$first%012d-$lines-$time.jsonl"
}

private[streamjoin] object HistoryFile {

  /** A file with this many lines is no longer merged. */
  val Full = 1000
  private val Together = 10
  private val Name = """(\d{12,})-(\d+)-(\d+)\.jsonl""".r

  def of(name: String): Option[HistoryFile] = name match {
    case Name(first, lines, time) => Some(HistoryFile(first.toLong, lines.toInt, time.toLong))
    case _ => None
  }

  /** The files without those whose lines are also in a larger one. */
  def inOrder(files: Seq[HistoryFile]): Vector[HistoryFile] =
    files.sortBy(file => (file.first, -file.lines)).foldLeft(Vector.empty[HistoryFile]) { (kept, file) =>
      if (kept.lastOption.exists(_.end >= file.end)) kept else kept :+ file
    }

  /** The last files, if enough of them have a similar size. */
  def toMerge(files: Vector[HistoryFile]): Option[Vector[HistoryFile]] =
    (0 until size(Full)).iterator
      .map(most => most -> files.reverseIterator.takeWhile(file => size(file.lines) <= most).toVector.reverse)
      .collectFirst {
        case (most, last) if last.count(file => size(file.lines) == most) >= Together => last
      }

  private def size(lines: Int): Int = math.log10(math.min(lines, Full).toDouble).toInt

  /**
   * The oldest files, which are no longer needed, and the others.
   *
   * @param oldest
   *   time of the oldest batch that is kept
   */
  def toPurge(
      files: Vector[HistoryFile],
      most: Int,
      oldest: Option[Long]
  ): (Vector[HistoryFile], Vector[HistoryFile]) = {
    val enough = files.scanRight(0L)((file, after) => after + file.lines).tail
    // The newest file always stays.
    val old = files.zip(enough).init.takeWhile { case (file, after) =>
      after >= most || oldest.exists(file.time < _)
    }
    files.splitAt(old.size)
  }
}
