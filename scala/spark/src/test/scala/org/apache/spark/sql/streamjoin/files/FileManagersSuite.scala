package org.apache.spark.sql.streamjoin.files

import java.io.{FileNotFoundException, FilterOutputStream, IOException, OutputStream}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.attribute.PosixFilePermissions
import java.nio.file.{FileSystemException, Files, Path => NioPath}
import java.util.concurrent.{Callable, CyclicBarrier, Executors}

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  ChecksumCheckpointFileManager,
  FileContextBasedCheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}

/**
 * What Spark expects of a checkpoint file manager: the same cases for Spark's two and for ours, and
 * across them.
 */
class FileManagersSuite extends AnyFunSuite {

  private type Make = (Path, Configuration) => CheckpointFileManager

  private val ours: (String, Make) = "ours" -> (new AtomicCheckpointFileManager(_, _))
  private val context: (String, Make) = "FileContext" -> (new FileContextBasedCheckpointFileManager(_, _))
  private val system: (String, Make) = "FileSystem" -> (new FileSystemBasedCheckpointFileManager(_, _))
  private val managers = Seq(ours, context, system)
  private val store = "object store" -> storeFiles(isConditional = true)
  private val plainStore = "object store without conditional writes" -> storeFiles(isConditional = false)
  private val everywhere = managers :+ store :+ plainStore

  private def storeFiles(isConditional: Boolean): Make = (path, conf) => {
    val ofStore = new Configuration(conf)
    ofStore.setClass("fs.file.impl", classOf[LocalObjectStore], classOf[FileSystem])
    ofStore.setBoolean(LocalObjectStore.IsConditional, isConditional)
    new ObjectStoreFiles(new Path(new Path("file:///"), path), ofStore)
  }

  /**
   * Hadoop's local file system. Hive, where its jar is there, has another, whose rename replaces
   * no file: with it, Spark's manager of FileSystem keeps the old file in silence.
   */
  private def newConf: Configuration = {
    val conf = new Configuration
    conf.setClass("fs.file.impl", classOf[LocalFileSystem], classOf[FileSystem])
    conf.setBoolean("fs.file.impl.disable.cache", true)
    conf
  }

  /** A folder and its file manager. */
  private class Place(val folder: NioPath, make: Make, conf: Configuration) {
    val files: CheckpointFileManager = make(new Path(folder.toUri), conf)

    def path(name: String): Path = new Path(folder.toString, name)
    def at(name: String): NioPath = folder.resolve(name)
    def crc(name: String): NioPath = folder.resolve(s".$name.crc")
    def by(other: Make): Place = new Place(folder, other, conf)

    def write(name: String, text: String, overwrite: Boolean = false): Unit = {
      val out = files.createAtomic(path(name), overwrite)
      try {
        out.write(text.getBytes(UTF_8))
        out.close()
      } catch {
        case failed: Throwable =>
          out.cancel()
          throw failed
      }
    }

    def read(name: String): String =
      Using.resource(files.open(path(name)))(in => new String(in.readAllBytes, UTF_8))

    def list(name: String = ""): Seq[String] =
      files
        .list(if (name.isEmpty) new Path(folder.toString) else path(name))
        .map(_.getPath.getName)
        .toSeq
        .sorted

    /** All files, hidden ones too. */
    def all: Seq[String] =
      Using.resource(Files.list(folder))(_.iterator.asScala.map(_.getFileName.toString).toSeq.sorted)

    def withoutChecksums: Seq[String] = all.filterNot(_.endsWith(".crc"))
  }

  private def in[T](make: Make, settings: (String, String)*)(body: Place => T): T = {
    val folder = Files.createTempDirectory("streamjoin-files-")
    val conf = newConf
    settings.foreach { case (key, value) => conf.set(key, value) }
    try body(new Place(folder, make, conf))
    finally JavaUtils.deleteRecursively(folder.toFile)
  }

  private def testEach(name: String, of: Seq[(String, Make)] = managers)(body: Place => Any): Unit =
    for ((manager, make) <- of) test(s"$manager: $name")(in(make)(body))

  private def permissions(file: NioPath): String =
    PosixFilePermissions.toString(Files.getPosixFilePermissions(file))

  // All managers.

  testEach("a file appears only when it is closed, with what was written", everywhere) { place =>
    import place._
    val out = files.createAtomic(path("x"), overwriteIfPossible = false)
    out.write("one".getBytes(UTF_8))
    assert(!files.exists(path("x")))
    assert(Files.exists(folder))
    out.close()
    out.close()
    out.cancel()
    assert(read("x") == "one")
    assert(out.getPos == 3)
    assert(permissions(at("x")) == "rw-r--r--")
  }

  for (overwrite <- Seq(false, true))
    testEach(s"a cancelled write leaves nothing, overwrite: $overwrite", everywhere) { place =>
      import place._
      if (overwrite) write("x", "old")
      val out = files.createAtomic(path("x"), overwrite)
      out.write("new".getBytes(UTF_8))
      out.cancel()
      out.cancel()
      out.close()
      assert(withoutChecksums == (if (overwrite) Seq("x") else Nil))
      if (overwrite) assert(read("x") == "old")
    }

  testEach("an existing file is replaced only on request", everywhere) { place =>
    import place._
    write("x", "one")
    intercept[FileAlreadyExistsException](write("x", "two"))
    assert(read("x") == "one")
    write("x", "three", overwrite = true)
    assert(read("x") == "three")
    write("new", "four", overwrite = true)
    assert(read("new") == "four")
  }

  testEach("a missing file cannot be read or listed, and deleting it does nothing", everywhere) { place =>
    import place._
    intercept[FileNotFoundException](read("x"))
    intercept[FileNotFoundException](list("x"))
    assert(!files.exists(path("x")))
    files.delete(path("x"))
    assert(all.isEmpty)
  }

  // FileSystem creates the folder.
  testEach("a file is not created without its folder", Seq(ours, context)) { place =>
    intercept[FileNotFoundException](place.write("no/x", "one"))
    assert(place.all.isEmpty)
  }

  // FileSystem moves the file into the folder.
  testEach("a file does not replace a folder", Seq(ours, context)) { place =>
    import place._
    files.mkdirs(path("a/b"))
    for (overwrite <- Seq(false, true)) intercept[IOException](write("a", "one", overwrite))
    assert(files.exists(path("a/b")))
  }

  testEach("folders are created with their parents and deleted with their contents") { place =>
    import place._
    files.mkdirs(path("a/b/c"))
    files.mkdirs(path("a/b/c"))
    Seq("a", "a/b", "a/b/c").foreach(name => assert(permissions(at(name)) == "rwxr-xr-x"))
    write("a/b/x", "one")
    write("a/b/c/y", "two")
    intercept[FileNotFoundException](read("a"))
    intercept[IOException](files.mkdirs(path("a/b/x")))
    intercept[IOException](files.mkdirs(path("a/b/x/below")))
    files.delete(path("a"))
    assert(!files.exists(path("a")))
  }

  testEach("a listing has names, sizes, times and hidden files, but no checksums of Hadoop's") { place =>
    import place._
    Seq("x", ".hidden", "x.crc", "10").foreach(write(_, "three"))
    files.mkdirs(path("folder"))
    Files.createSymbolicLink(at("lost"), at("gone"))
    Files.createSymbolicLink(at("linked"), at("x"))
    assert(list() == Seq(".hidden", "10", "folder", "linked", "x", "x.crc"))
    val found = files.list(new Path(folder.toString), (file: Path) => file.getName == "x").toSeq
    assert(found.map(_.getPath) == Seq(new Path(at("x").toUri)))
    assert(found.map(_.getLen) == Seq(5))
    assert(found.forall(_.isFile))
    assert(found.map(_.getModificationTime) == Seq(Files.getLastModifiedTime(at("x")).toMillis))
    assert(files.list(path("x")).map(_.getPath.getName).toSeq == Seq("x"))
    assert(list("folder").isEmpty)
    assert(files.list(new Path(folder.toString)).count(_.isDirectory) == 1)
  }

  testEach("a symbolic link is deleted, but not its target") { place =>
    import place._
    files.mkdirs(path("kept"))
    write("kept/x", "one")
    files.mkdirs(path("gone"))
    Files.createSymbolicLink(at("gone/link"), at("kept"))
    files.delete(path("gone"))
    assert(list() == Seq("kept"))
    assert(read("kept/x") == "one")
  }

  testEach("names can have blanks, percent signs, colons and non-ASCII letters", everywhere) { place =>
    import place._
    for (name <- Seq("a b%20", "größe", "+&#?")) {
      write(name, name)
      assert(read(name) == name)
      assert(list() == Seq(name))
      files.delete(path(name))
    }
    Files.writeString(at("a:b"), "")
    assert(list() == Seq("a:b"))
  }

  testEach("the checkpoint folder is created from a path with or without a scheme") { place =>
    for (root <- Seq(new Path(place.folder.toString, "new/a b"), new Path(place.at("new/a b").toUri))) {
      val files = managers.map(_._2(root, newConf)).find(_.getClass == place.files.getClass).get
      assert(files.isLocal)
      assert(files.createCheckpointDirectory().toUri.getPath == s"${place.folder}/new/a b")
      assert(Files.isDirectory(place.at("new/a b")))
    }
  }

  testEach("Spark's own checksums work on top", everywhere) { place =>
    import place._
    def checked =
      new ChecksumCheckpointFileManager(files, numThreads = 2, skipCreationIfFileMissingChecksum = true)
    val out = checked.createAtomic(path("x"), overwriteIfPossible = false)
    out.write("one".getBytes(UTF_8))
    out.close()
    assert(list() == Seq("x", "x.crc"))
    assert(Using.resource(checked.open(path("x")))(_.readAllBytes.length) == 3)
    write("x", "two", overwrite = true)
    val error = intercept[Exception](Using.resource(checked.open(path("x")))(_.readAllBytes))
    assert(error.getMessage.contains("CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED"))
    checked.delete(path("x"))
    assert(list().isEmpty)
  }

  // Our manager.

  for ((name, sparks) <- Seq(context, system)) {
    test(s"$name reads what we have written, also over its own files") {
      in(sparks) { theirs =>
        val place = theirs.by(ours._2)
        Seq("replaced", "deleted").foreach(theirs.write(_, "by Spark"))
        assert(theirs.all == Seq(".deleted.crc", ".replaced.crc", "deleted", "replaced"))
        assert(place.read("replaced") == "by Spark")
        place.write("replaced", "by us", overwrite = true)
        place.files.delete(place.path("deleted"))
        assert(place.all == Seq("replaced"))
        assert(theirs.read("replaced") == "by Spark".replace("Spark", "us"))
        theirs.write("replaced", "by Spark again", overwrite = true)
        assert(place.read("replaced") == "by Spark again")
      }
    }

    test(s"a checksum of $name is verified; one that lost its file is harmless") {
      in(sparks) { theirs =>
        val place = theirs.by(ours._2)
        theirs.write("x", "one")
        Files.writeString(place.at("x"), "two")
        intercept[ChecksumException](place.read("x"))
        Files.delete(place.at("x"))
        place.write("x", "three")
        assert(place.all == Seq("x"))
        assert(theirs.read("x") == "three")
      }
    }
  }

  for ((name, make) <- Seq(ours, store))
    test(s"$name: of many writers of a file, one wins and the others leave nothing") {
      in(make) { place =>
        val writers = 8
        val pool = Executors.newFixedThreadPool(writers)
        val all = new CyclicBarrier(writers)
        try
          for (file <- 1 to 50) {
            val tasks = (1 to writers).map { writer =>
              new Callable[Try[Int]] {
                def call(): Try[Int] = Try {
                  val out = place.files.createAtomic(place.path(s"$file"), overwriteIfPossible = false)
                  out.write(s"$writer".getBytes(UTF_8))
                  all.await()
                  out.close()
                  writer
                }
              }
            }
            val results = pool.invokeAll(tasks.asJava).asScala.map(_.get).toSeq
            val winners = results.flatMap(_.toOption)
            assert(winners.map(_.toString) == Seq(place.read(s"$file")))
            assert(results.flatMap(_.failed.toOption).forall(_.isInstanceOf[FileAlreadyExistsException]))
            assert(place.all.size == file)
          }
        finally pool.shutdownNow()
      }
    }

  test("without hard links, our manager checks for the file and renames") {
    in((path, conf) =>
      new NioFiles(path, conf) {
        override private[streamjoin] def link(file: NioPath, temporary: NioPath): Unit =
          throw new FileSystemException(file.toString, temporary.toString, "Operation not permitted")
      }
    ) { place =>
      place.write("x", "one")
      intercept[FileAlreadyExistsException](place.write("x", "two"))
      assert(place.all == Seq("x"))
      assert(place.read("x") == "one")
    }
  }

  for (overwrite <- Seq(false, true); step <- Seq("create", "write", "close", "publish"))
    test(s"a failed $step keeps the old file and leaves nothing else, overwrite: $overwrite") {
      in((path, conf) => new FailingNioFiles(path, conf, step)) { place =>
        if (overwrite) place.by(context._2).write("x", "old")
        intercept[IOException](place.write("x", "new" * 100000, overwrite))
        if (overwrite) {
          assert(place.withoutChecksums == Seq("x"))
          assert(place.by(ours._2).read("x") == "old")
        } else assert(place.all.isEmpty)
      }
    }

  for (overwrite <- Seq(false, true))
    test(s"a process killed before the file has its name does no harm, overwrite: $overwrite") {
      in(ours._2) { place =>
        import place._
        if (overwrite) by(context._2).write("x", "old")
        val out = files.createAtomic(path("x"), overwrite)
        out.write(new Array[Byte](1 << 20))
        // Never closed, as if the process had been killed.
        assert(files.exists(path("x")) == overwrite)
        assert(list().filterNot(_.startsWith(".")) == (if (overwrite) Seq("x") else Nil))
        write("x", "again", overwrite)
        assert(read("x") == "again")
      }
    }

  test("the umask of Hadoop's settings applies to files and folders") {
    // FileSystem instances are cached, with the umask of the first caller.
    for ((manager, make) <- Seq(ours, context)) in(make, "fs.permissions.umask-mode" -> "027") { place =>
      place.files.mkdirs(place.path("folder"))
      place.write("x", "one")
      assert(permissions(place.at("x")) == "rw-r-----", manager)
      assert(permissions(place.at("folder")) == "rwxr-x---", manager)
    }
  }

  test("without conditional writes, a store is asked for the file at the end of the write as well") {
    in(plainStore._2) { place =>
      val out = place.files.createAtomic(place.path("x"), overwriteIfPossible = false)
      out.write("late".getBytes(UTF_8))
      place.write("x", "first")
      intercept[FileAlreadyExistsException](out.close())
      out.cancel()
      assert(place.read("x") == "first")
    }
  }

  test("our manager handles local files and object stores, and none if streamjoin is disabled") {
    def of(path: String, settings: (String, String)*): CheckpointFileManager = {
      val conf = new Configuration
      conf.set(AtomicCheckpointFileManager.Setting, classOf[AtomicCheckpointFileManager].getName)
      settings.foreach { case (key, value) => conf.set(key, value) }
      CheckpointFileManager.create(new Path(path), conf).asInstanceOf[AtomicCheckpointFileManager].files
    }
    assert(of("file:/tmp/x").isInstanceOf[NioFiles])
    assert(of("/tmp/x").isInstanceOf[NioFiles])
    val context = classOf[FileContextBasedCheckpointFileManager]
    assert(
      of("viewfs://cluster/x", "fs.viewfs.mounttable.cluster.link./x" -> "file:/tmp").getClass == context
    )
    assert(of("file:/tmp/x", "spark.streamjoin.enabled" -> "false").getClass == context)
    assert(
      of(
        "file:/tmp/x",
        "fs.AbstractFileSystem.file.impl" -> classOf[OtherLocalFs].getName
      ).getClass == context
    )
    val localStore = "fs.store.impl" -> classOf[LocalObjectStore].getName
    assert(of("store:/tmp/x", localStore).isInstanceOf[ObjectStoreFiles])
    assert(
      of("store:/tmp/x", localStore, "spark.streamjoin.enabled" -> "false")
        .isInstanceOf[FileSystemBasedCheckpointFileManager]
    )
    assert(
      of("raw:/tmp/x", "fs.raw.impl" -> classOf[RawFiles].getName)
        .isInstanceOf[FileSystemBasedCheckpointFileManager]
    )
  }
}

/** One step of writing a file fails. */
final private class FailingNioFiles(path: Path, conf: Configuration, step: String)
    extends NioFiles(path, conf) {
  private def fail(at: String): Unit = if (at == step) throw new IOException(s"injected: $at")

  override private[streamjoin] def create(file: NioPath): OutputStream = {
    fail("create")
    new FilterOutputStream(super.create(file)) {
      override def write(bytes: Array[Byte], from: Int, length: Int): Unit = {
        fail("write")
        out.write(bytes, from, length)
      }
      override def close(): Unit = {
        out.close()
        fail("close")
      }
    }
  }

  override private[streamjoin] def publish(temporary: NioPath, file: NioPath, overwrite: Boolean): Unit = {
    fail("publish")
    super.publish(temporary, file, overwrite)
  }
}

/** A file system that a user has put in place of Hadoop's. */
class OtherLocalFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(uri, new RawLocalFileSystem, conf, "file", false)

/** Local files under another scheme. */
class RawFiles extends RawLocalFileSystem {
  override def getUri: URI = URI.create("raw:///")
  override def getScheme: String = "raw"
}
