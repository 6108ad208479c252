package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID

import scala.collection.mutable
import scala.util.{Failure, Random, Success, Try}

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  BlockFileWriter,
  BlockFiles,
  Claim,
  InputKind,
  Manifest
}
import org.apache.spark.sql.streamjoin.arrangement.{HookedFileSystem, Item}

/**
 * Two runs of one query maintain an arrangement at once, over files that are not created
 * atomically: a rename overwrites, as on an object store. The other run may intervene at each call
 * of the file system.
 */
class TwoMaintainersSuite extends AnyFunSuite with OverwritingStore {
  private val query = UUID.randomUUID()

  private def begun(): Path = {
    val root = ArrangementFolder.root(newFolder("store"))
    val meta = ArrangementMeta(UUID.randomUUID(), Item.Schema, Seq(Seq("key")), 1, InputKind.Appended, None)
    ArrangementFolder.open(root).create(meta)
    root
  }

  /** A run of the query, without Spark. */
  final private class Driver(root: Path, val name: String, of: UUID = query) {
    private val run = new MaintainingRun
    private val id = UUID.randomUUID()
    private val write = new ArrangementWrite(root, of, run)
    run.begin(ArrangementFolder.open(root), ArrangementFolder.open(root).meta)
    private def conf = SparkSession.active.sessionState.newHadoopConf()

    def batch(version: Long): Unit = {
      run.claim(ArrangementFolder.open(root), Claim(of, id))
      val file = new BlockFileWriter(root, s"changes/$version", 0, id, conf)
      file.add(0, 0, Item.row(Item(Some(version.toInt), name, 0)), 1)
      val output = TaskOutput(file.commit(), None, wroteBase = false, Map(Manifest.Rows -> 1L))
      write.commit(version, Array(OutputMessage(Seq(output))))
    }
  }

  /** Whether a batch was fenced off; rethrows any other error. */
  private def isFenced(result: Try[Unit]): Boolean = result match {
    case Success(_) => false
    case Failure(error) =>
      val condition = SparkTest.errorClass(error)
      if (!condition.contains("STREAMJOIN_ARRANGEMENT_TAKEN_OVER")) throw error
      true
  }

  /** Checks that all files that manifests name exist, with the rows of one run. */
  private def check(root: Path, versions: Long, clue: String): Unit = {
    val folder = ArrangementFolder.open(root)
    assert(folder.versionNumbers == (0L until versions), clue)
    folder.versionNumbers.map(folder.manifest).foreach { manifest =>
      manifest.changes.foreach { file =>
        file.blocks.foreach { block =>
          BlockFiles.read(root, file.path, block, SparkSession.active.sessionState.newHadoopConf())
        }
      }
    }
  }

  test("one of two runs is fenced off, at whichever call the other intervenes") {
    onStore {
      val alone = new Driver(begun(), "alone")
      alone.batch(0)
      val calls = OverwritingFileSystem.interrupting(-1)(())(alone.batch(1))
      var overwritten = 0
      (0 until calls).foreach { at =>
        val root = begun()
        val (a, b) = (new Driver(root, "a"), new Driver(root, "b"))
        a.batch(0)
        var (ofA, ofB): (Try[Unit], Try[Unit]) = (Success(()), Success(()))
        OverwritingFileSystem.overwritten = 0
        OverwritingFileSystem.interrupting(at) { ofB = Try(b.batch(1)) } { ofA = Try(a.batch(1)) }
        check(root, 2, s"call $at")
        val ended = Seq(a -> ofA, b -> ofB).count { case (driver, batch) =>
          isFenced(batch) || isFenced(Try(driver.batch(2)))
        }
        assert(ended > 0, s"call $at: both continued")
        // A new run can continue.
        val newest = ArrangementFolder.open(root).newest
        new Driver(root, "c").batch(newest + 1)
        check(root, newest + 2, s"call $at")
        overwritten += OverwritingFileSystem.overwritten
      }
      assert(calls > 15, s"$calls calls, $overwritten manifests overwritten")
      assert(overwritten > 0, s"$calls calls, $overwritten manifests overwritten")
    }
  }

  test("of two runs that interleave in any order, one is fenced off") {
    onStore {
      val outcomes = mutable.Set.empty[(Int, Int)]
      (0 until (if (SparkTest.isLong) 400 else 9)).foreach { seed =>
        val chance = new Random(seed)
        val root = begun()
        val drivers = Seq(new Driver(root, "a"), new Driver(root, "b"))
        new Driver(root, "before").batch(0)
        val turns = new Turns(chance, Seq(0.05, 0.2, 0.5)(seed % 3))
        val ends = mutable.Map.empty[String, Int].withDefaultValue(0)
        val session = SparkSession.active
        turns.run(drivers.map { driver => () =>
          SparkSession.setActiveSession(session)
          var version = 1
          while (version <= 3 && !isFenced(Try(driver.batch(version.toLong)))) {
            turns.synchronized(ends(driver.name) = version)
            version += 1
            // Neither run pauses between two steps while the other writes two versions.
            turns.meet()
          }
        })
        val clue = s"seed $seed, $ends"
        check(root, ArrangementFolder.open(root).newest + 1, clue)
        assert(drivers.map(driver => ends(driver.name)).min < 3, clue)
        outcomes += ((ends("a"), ends("b")))
      }
      assert(outcomes.exists(_._1 == 3), outcomes)
      assert(outcomes.exists(_._2 == 3), outcomes)
    }
  }

  test("a run of another query cannot claim an arrangement that has an owner") {
    onStore {
      val root = begun()
      val a = new Driver(root, "a")
      a.batch(0)
      val error = intercept[Exception](new Driver(root, "x", UUID.randomUUID()).batch(1))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_ARRANGEMENT_OWNED"))
      a.batch(1)
      check(root, 2, "the owner continues")
    }
  }
}

/** Runs threads one step at a time, in an order that depends only on the seed. */
final private class Turns(chance: Random, switches: Double) {
  private val alive = mutable.LinkedHashSet.empty[Thread]
  private val waiting = mutable.LinkedHashSet.empty[Thread]
  private val parked = mutable.LinkedHashSet.empty[Thread]
  private var turn: Option[Thread] = None
  private var failure: Option[Throwable] = None

  /** Each thread calls this before each step. */
  def step(): Unit = synchronized {
    val me = Thread.currentThread
    if (alive(me)) {
      waiting += me
      notifyAll()
      while (!turn.contains(me)) wait()
      turn = None
    }
  }

  /** Waits until all threads are here. */
  def meet(): Unit = synchronized {
    val me = Thread.currentThread
    parked += me
    release()
    while (parked(me)) wait()
  }

  private def release(): Unit = {
    if (alive.forall(parked)) parked.clear()
    notifyAll()
  }

  def run(bodies: Seq[() => Unit]): Unit = {
    val threads = bodies.map(body => new Thread(() => live(body)))
    synchronized(alive ++= threads)
    OverwritingFileSystem.before = () => step()
    try {
      threads.foreach(_.start())
      synchronized(schedule(threads))
    } finally OverwritingFileSystem.before = () => ()
    failure.foreach(throw _)
  }

  private def live(body: () => Unit): Unit =
    try {
      step()
      body()
    } catch { case error: Throwable => synchronized { failure = Some(error) } }
    finally
      synchronized {
        alive -= Thread.currentThread
        release()
      }

  private def schedule(threads: Seq[Thread]): Unit = {
    var last: Option[Thread] = None
    while (alive.nonEmpty) {
      while (turn.nonEmpty || alive.exists(thread => !waiting(thread) && !parked(thread))) wait()
      val ready = threads.filter(waiting)
      if (ready.nonEmpty) {
        if (!last.exists(waiting) || chance.nextDouble() < switches)
          last = Some(ready(chance.nextInt(ready.size)))
        waiting --= last
        turn = last
        notifyAll()
      }
    }
  }
}

/** Folders named `store` are on [[OverwritingFileSystem]]. */
trait OverwritingStore extends SparkTest { this: AnyFunSuite =>
  protected def onStore[T](body: => T): T = withConf(
    "fs.file.impl" -> classOf[OverwritingFileSystem].getName,
    "fs.file.impl.disable.cache" -> "true",
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FileSystemBasedCheckpointFileManager].getName
  )(body)
}

/** The local file system, whose renames overwrite an existing file. */
class OverwritingFileSystem extends HookedFileSystem {
  override protected def before(call: String, path: Path): Unit = {
    if (call != "make" && path.toString.contains("/store-")) OverwritingFileSystem.before()
    if (call == "rename" && path.getParent.getName == "versions" && OverwritingFileSystem.isThere(path))
      OverwritingFileSystem.overwritten += 1
  }
}

object OverwritingFileSystem {

  /** Runs before each call. */
  @volatile var before: () => Unit = () => ()
  @volatile var overwritten = 0

  private def isThere(path: Path) = java.nio.file.Files.exists(java.nio.file.Path.of(path.toUri.getPath))

  /** Interrupts one of the calls of the body; returns the number of calls. */
  def interrupting(at: Int)(interrupt: => Unit)(body: => Unit): Int = {
    var calls = 0
    before = () => {
      val isIt = calls == at
      calls += 1
      if (isIt) {
        val counting = before
        before = () => ()
        try interrupt
        finally before = counting
      }
    }
    try body
    finally before = () => ()
    calls
  }
}
