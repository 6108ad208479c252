package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.io.ObjectInputStream
import java.util.UUID

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.connector.write.LogicalWriteInfo
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, BlockFile, BlockRef}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.Utils

/** The sink of an arrangement takes what its own tasks have written, and no object of Java's. */
class TaskOutputSuite extends AnyFunSuite with ArrangementTest {
  import TaskOutputSuite._

  private val block = BlockRef(1, 39, 1L << 40, 17, 1 << 22, 3, -5)
  private val outputs = Seq(
    TaskOutput(None, None, wroteBase = false, Map.empty),
    TaskOutput(
      Some(BlockFile(s"changes/7/0-1234abcd-${UUID.randomUUID()}", IndexedSeq(block, block.copy(index = 0)))),
      Some(BlockFile(s"bases/7/12-1234abcd-${UUID.randomUUID()}", IndexedSeq.empty)),
      wroteBase = true,
      Map("rows" -> -3L, "größe" -> Long.MaxValue),
      Some(Origin(UUID.randomUUID(), Some(UUID.randomUUID()))),
      Some((39, 2L))
    )
  )

  test("what a task has written is read as it was") {
    outputs.foreach(output => assert(TaskOutput.fromBytes(output.toBytes).contains(output)))
  }

  test("nothing else is read, and no class is loaded") {
    Executed.count = 0
    assert(TaskOutput.fromBytes(Utils.serialize(new Executed)).isEmpty)
    assert(TaskOutput.fromBytes(Utils.serialize(outputs.last)).isEmpty, "as an earlier release sent it")
    assert(Executed.count == 0)
    // The test would see it.
    Utils.deserialize[Executed](Utils.serialize(new Executed))
    assert(Executed.count == 1)

    val whole = outputs.last.toBytes
    assert(whole.indices.forall(length => TaskOutput.fromBytes(whole.take(length)).isEmpty))
    assert(TaskOutput.fromBytes(whole :+ 0.toByte).isEmpty)
    // A number of blocks that would take all memory.
    val many = whole.clone()
    val at = 4 + 1 + 2 + outputs.last.changes.get.path.length
    (0 until 4).foreach(i => many(at + i) = if (i == 0) 0x7f else -1)
    assert(TaskOutput.fromBytes(many).isEmpty)
  }

  test("a file outside of the arrangement is no output") {
    for (
      path <- Seq(
        "changes/../../secret/1-a",
        "/etc/passwd",
        "file:/etc/passwd",
        "versions/3",
        "changes/7/a/b"
      )
    )
      assert(
        TaskOutput
          .fromBytes(TaskOutput(Some(BlockFile(path, Nil)), None, wroteBase = false, Map.empty).toBytes)
          .isEmpty,
        path
      )
  }

  test("a query that is none of sj.arrange is rejected, whatever its column is called") {
    val it = maintainer("id INT", Seq(Seq("id")))
    during(it)(it.feed(Row(1)))
    Executed.count = 0
    for (bytes <- Seq(Utils.serialize(new Executed), outputs.head.toBytes)) {
      val input = memory("id INT")
      input.addData(Row(1))
      val forged = input.toDF().select(lit(bytes).as("output"))
      assert(forged.schema == TaskOutput.Schema)
      def start() = forged.writeStream
        .format("streamjoin")
        .option("path", it.root)
        .option("checkpointLocation", newFolder())
        .start()
      rejected("STREAMJOIN_ARRANGEMENT_SINK")(start())
    }
    assert(Executed.count == 0)
    assert(rowsOf(it.root) == Seq("1"))
  }

  test("without the extension, which rejects such a query at its start, the sink does") {
    val root = ArrangementFolder.root(newFolder("arrangement"))
    val info = new LogicalWriteInfo {
      override def options: CaseInsensitiveStringMap = CaseInsensitiveStringMap.empty
      override def queryId: String = UUID.randomUUID().toString
      override def schema: StructType = TaskOutput.Schema
    }
    rejected("STREAMJOIN_ARRANGEMENT_SINK")(new ArrangementWriteBuilder(root, info, new MaintainingRun))
  }
}

private object TaskOutputSuite {

  /** Does something when Java reads it, as classes of many libraries do. */
  final class Executed extends Serializable {
    private def readObject(in: ObjectInputStream): Unit = {
      in.defaultReadObject()
      Executed.count += 1
    }
  }

  object Executed {
    @volatile var count = 0
  }
}
