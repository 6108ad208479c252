package org.apache.spark.sql.streamjoin.files

import java.io.{ByteArrayOutputStream, IOException}
import java.net.URI

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/** Local files as an object store has them: a file appears when its stream is closed. */
class LocalObjectStore extends RawLocalFileSystem {
  import LocalObjectStore._

  private var scheme = "file"

  override def initialize(uri: URI, conf: Configuration): Unit = {
    scheme = uri.getScheme
    super.initialize(uri, conf)
  }
  override def getUri: URI = URI.create(s"$scheme:///")
  override def getScheme: String = scheme

  override def hasPathCapability(path: Path, capability: String): Boolean = capability match {
    case CommonPathCapabilities.ABORTABLE_STREAM => true
    case Conditional => getConf.getBoolean(IsConditional, true)
    case _ => false
  }

  override def createFile(path: Path): Builder = new Builder(this, path).create().overwrite(true)

  private def put(path: Path, bytes: Array[Byte], isConditional: Boolean): Unit = Puts.synchronized {
    if (isConditional && exists(path)) throw new IOException("412 Precondition Failed")
    Using.resource(create(path, true))(_.write(bytes))
  }
}

object LocalObjectStore {
  val IsConditional = "test.store.conditional"
  private val Conditional = "fs.option.create.conditional.overwrite"

  /** One write at a time. */
  private object Puts

  class Builder(store: LocalObjectStore, path: Path)
      extends FSDataOutputStreamBuilder[FSDataOutputStream, Builder](store, path) {
    override def getThisBuilder: Builder = this
    override def build(): FSDataOutputStream = {
      rejectUnknownMandatoryKeys(java.util.Set.of(Conditional), "unknown")
      val isConditional = getOptions.getBoolean(Conditional, false)
      if (!getFlags.contains(CreateFlag.OVERWRITE) && store.exists(path))
        throw new FileAlreadyExistsException(path.toString)
      new FSDataOutputStream(new Upload(store, path, isConditional), null)
    }
  }

  private class Upload(store: LocalObjectStore, path: Path, isConditional: Boolean)
      extends ByteArrayOutputStream
      with Abortable {
    private var isOver = false
    override def close(): Unit = if (!isOver) {
      isOver = true
      store.put(path, toByteArray, isConditional)
    }
    override def abort(): Abortable.AbortableResult = {
      isOver = true
      new Abortable.AbortableResult {
        override def alreadyClosed: Boolean = false
        override def anyCleanupException: IOException = null
      }
    }
  }
}
