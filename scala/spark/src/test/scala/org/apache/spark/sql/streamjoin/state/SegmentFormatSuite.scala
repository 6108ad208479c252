package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore, StateStoreProvider}
import org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException
import org.apache.spark.sql.types.{LongType, StringType}

import streamjoin.core.Side

/**
 * Values in the store that differ from what was written give a clear error, which names the store
 * and its version: when the version is opened, and when an unloaded segment is read back.
 */
class SegmentFormatSuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val Partition = 3
  private val Header = 0
  private val Rows = 1
  private val Flags = 2

  /**
   * Version 2 of a store: on the left, two buckets of ten rows and one of three; on the right, one
   * bucket of two rows, which matched rows of all three and flagged some.
   */
  private def prepared[T](store: String = defaultStore)(body: StateStoreProvider => T): T =
    withProvider(store, partition = Partition) { provider =>
      val first = on(provider.getStore(0, None), rows)
      (0L until 23L).foreach(i => first.append(Side.Left, rows(simple(i, i % 2, i))))
      first.commit()
      val second = on(provider.getStore(1, None), rows)
      (0L until 2L).foreach(i => second.append(Side.Right, rows(simple(100 + i, i, 5))))
      val matches = second.matches(Side.Right, anyTime)
      while (matches.next()) if (TestRows.number(matches.otherRow) % 3 == 0) matches.flagOther()
      second.commit()
      assert(reading(provider, 2)(kinds) == Map(Header -> 1, Rows -> 4, Flags -> 3))
      body(provider)
    }

  // The contents of a store, and changes to them.

  private case class At(kind: Int, side: Int, bucket: Long, number: Long)
  private val LeftRows = At(Rows, 0, 0, 0)
  private val LeftFlags = At(Flags, 0, 0, 0)

  private val keyOf = UnsafeProjection.create(SegmentStore.KeySchema)
  private val valueOf = UnsafeProjection.create(SegmentStore.ValueSchema)
  private def key(at: At): UnsafeRow = keyOf(InternalRow(at.kind, at.side, at.bucket, at.number))

  private def get(store: ReadStateStore, at: At): Array[Byte] = store.get(key(at)).getBinary(0)
  private def put(store: StateStore, at: At, bytes: Array[Byte]): Unit =
    store.put(key(at), valueOf(InternalRow(bytes)))
  private def change(store: StateStore, at: At)(to: Array[Byte] => Array[Byte]): Unit =
    put(store, at, to(get(store, at)))

  /** A segment of the store, with other header fields and a checksum that fits them. */
  private def relabelled(store: ReadStateStore, at: At)(side: Int, number: Long, count: Int): Array[Byte] = {
    val value = SegmentFormat.copyOf(store.get(key(at)))
    SegmentFormat.writeHeader(value, side, bucket = 0, number, count, rows.layout.fields, batch = 0)
    value.slice(SegmentFormat.ValueAt, SegmentFormat.ValueAt + SegmentFormat.size(value))
  }

  private def flipped(bytes: Array[Byte], bit: Int): Array[Byte] =
    bytes.updated(bit / 8, (bytes(bit / 8) ^ (1 << (bit % 8))).toByte)

  private def checked(error: StreamJoinRuntimeException, version: Long, found: String): Unit = {
    assert(error.getCondition == "STREAMJOIN_STATE_FORMAT")
    assert(error.getSqlState == "55000")
    val message = error.getMessage
    assert(message.contains(s"partition $Partition at $folder, version $version, cannot be read: found "))
    assert(message.contains(found))
    assert(message.contains("reads format 2"))
  }

  /** Commits the change as version 3, and then opens it. */
  private def rejectedWhenOpened(provider: StateStoreProvider, found: String)(
      change: StateStore => Unit
  ): Unit = {
    val store = provider.getStore(2, None)
    change(store)
    store.commit()
    val tampered = provider.getStore(3, None)
    try checked(intercept[StreamJoinRuntimeException](on(tampered, rows)), 3, found)
    finally tampered.abort()
    reading(provider, 3) { read =>
      val layouts = Seq(rows.layout, rows.layout)
      checked(intercept[StreamJoinRuntimeException](IndexReading.readOnly(read, layouts, 1)), 3, found)
    }
  }

  /** Makes the change when the version is open and its rows are not in memory. */
  private def rejectedWhenReadBack(provider: StateStoreProvider, found: String)(
      change: StateStore => Unit
  ): Unit = {
    def opened(work: JoinState => Unit): Unit = {
      val store = provider.getStore(2, None)
      try {
        val state = on(store, rows, budget = 1)
        assert(state.size.unloaded == state.size.segments)
        change(store)
        checked(intercept[StreamJoinRuntimeException](work(state)), 2, found)
      } finally store.abort()
    }
    opened { state =>
      state.append(Side.Right, rows(simple(200, 0, 0)))
      pairs(state, Side.Right, anyTime)
    }
    opened(evict(_, Side.Left, unmatched = true, 3L))
  }

  private val tampered: Seq[(String, String, Array[Byte] => Array[Byte])] = Seq(
    ("one byte cut off", "cut to", _.dropRight(1)),
    ("a quarter cut off", "cut to", all => all.take(all.length * 3 / 4)),
    ("only their first bytes", "", _.take(15)),
    ("no bytes", "", _ => Array.empty),
    ("additional bytes", "cut to", _ ++ new Array[Byte](8)),
    ("another magic number", "of another program", flipped(_, 9)),
    ("format 1", "of format 1", _.updated(4, 1.toByte)),
    ("format 9", "of format 9", _.updated(4, 9.toByte)),
    ("a flipped bit", "checksum", all => flipped(all, 8 * all.length - 12)),
    ("another checksum", "checksum", flipped(_, 64))
  )

  for ((name, found, to) <- tampered) {
    for ((what, at) <- Seq("rows" -> LeftRows, "flags" -> LeftFlags, "header" -> At(Header, 0, 0, 0)))
      test(s"$what with $name are rejected when a version is opened") {
        prepared()(rejectedWhenOpened(_, found)(change(_, at)(to)))
      }
    for ((what, at) <- Seq("rows" -> LeftRows, "flags" -> LeftFlags))
      test(s"$what with $name are rejected when they are read back") {
        prepared()(rejectedWhenReadBack(_, found)(change(_, at)(to)))
      }
  }

  for (store <- Seq(defaultStore, rocksDb)) {
    test(s"truncated rows are rejected, $store") {
      prepared(store) { provider =>
        rejectedWhenReadBack(provider, "cut to")(change(_, LeftRows)(_.dropRight(8)))
        rejectedWhenOpened(provider, "cut to")(change(_, LeftRows)(_.dropRight(8)))
      }
    }

    test(s"missing rows are rejected, $store") {
      prepared(store) { provider =>
        rejectedWhenReadBack(provider, "no rows of segment 0 of bucket 0, side 0") { values =>
          values.remove(key(LeftRows))
        }
        rejectedWhenOpened(provider, "2 segments with 13 rows in place of 3 with 23") { values =>
          values.remove(key(LeftRows))
        }
      }
    }
  }

  test("every flipped bit and every truncation is detected") {
    prepared() { provider =>
      val store = provider.getStore(2, None)
      val layouts = Seq(rows.layout, rows.layout)
      def rejected(at: At, bytes: Array[Byte], how: => String): Unit = {
        put(store, at, bytes)
        withClue(s"$at, $how: ")(
          checked(intercept[StreamJoinRuntimeException](IndexReading.readOnly(store, layouts, 1)), 2, "")
        )
      }
      Seq(LeftRows, LeftFlags, At(Header, 0, 0, 0)).foreach { at =>
        val whole = get(store, at)
        (0 until 8 * whole.length).foreach(bit => rejected(at, flipped(whole, bit), s"bit $bit"))
        whole.indices.foreach(length => rejected(at, whole.take(length), s"cut to $length"))
        put(store, at, whole)
      }
      assert(IndexReading.readOnly(store, layouts, 1).buffer(Side.Left).rows == 23)
      store.abort()
    }
  }

  // Values of other segments.

  private val elsewhere = Seq(
    "another side" -> LeftRows.copy(side = 1),
    "another bucket" -> LeftRows.copy(bucket = 1),
    "another number" -> LeftRows.copy(number = 4)
  )

  for ((what, at) <- elsewhere) test(s"a segment of $what is rejected when a version is opened") {
    prepared()(rejectedWhenOpened(_, "in place of segment")(store => put(store, at, get(store, LeftRows))))
  }

  for (at <- Seq(At(Rows, 1, 0, 0), At(Rows, 0, 1, 0)))
    test(
      s"a segment of side ${at.side}, bucket ${at.bucket} in place of another is rejected when read back"
    ) {
      val found =
        s"segment 0 of bucket ${at.bucket}, side ${at.side}, in place of segment 0 of bucket 0, side 0"
      prepared()(rejectedWhenReadBack(_, found)(store => put(store, LeftRows, get(store, at))))
    }

  test("flags in place of rows, and rows in place of flags, are rejected") {
    prepared() { provider =>
      rejectedWhenReadBack(provider, "a segment of another program") { store =>
        put(store, LeftRows, get(store, LeftFlags))
      }
      rejectedWhenReadBack(provider, "flags of another program") { store =>
        put(store, LeftFlags, get(store, LeftRows))
      }
      rejectedWhenOpened(provider, "flags of another program") { store =>
        put(store, LeftFlags, get(store, LeftRows))
      }
    }
  }

  test("flags for more or fewer rows than a segment has are rejected") {
    prepared() { provider =>
      val other = At(Flags, 0, 2, 0)
      rejectedWhenReadBack(provider, "flags of 3 rows for a segment of 10")(s =>
        put(s, LeftFlags, get(s, other))
      )
      rejectedWhenOpened(provider, "flags of 10 rows for a segment of 3")(s =>
        put(s, other, get(s, LeftFlags))
      )
    }
  }

  test("missing flags are rejected when they are read back") {
    prepared()(rejectedWhenReadBack(_, "no flags of segment 0 of bucket 0, side 0")(_.remove(key(LeftFlags))))
  }

  test("missing flags are rejected when a version is opened") {
    // Otherwise matched rows would be emitted once more, as unmatched.
    prepared()(rejectedWhenOpened(_, "flags")(_.remove(key(LeftFlags))))
  }

  test("a missing header is rejected") {
    prepared()(
      rejectedWhenOpened(_, "3 segments with 23 rows in place of 0 with 0")(
        _.remove(key(At(Header, 0, 0, 0)))
      )
    )
  }

  test("a surplus segment is rejected") {
    prepared()(rejectedWhenOpened(_, "4 segments with 33 rows in place of 3 with 23") { store =>
      put(store, LeftRows.copy(number = 1), relabelled(store, LeftRows)(side = 0, number = 1, count = 10))
    })
  }

  test("a segment whose header has a wrong row count is rejected") {
    prepared()(rejectedWhenOpened(_, "a segment of 2 rows in place of 3") { store =>
      val at = LeftRows.copy(side = 1)
      put(store, at, relabelled(store, at)(side = 1, number = 0, count = 3))
    })
  }

  test("a value of an unknown kind is rejected") {
    prepared()(rejectedWhenOpened(_, "a value of kind 99") { store =>
      put(store, At(99, 0, 0, 0), get(store, LeftRows))
    })
  }

  test("a segment of a side that does not exist is rejected") {
    prepared()(rejectedWhenOpened(_, "side 2") { store =>
      put(store, LeftRows.copy(side = 2), relabelled(store, LeftRows)(side = 2, number = 0, count = 10))
    })
  }

  test("rows with other columns are rejected") {
    prepared() { provider =>
      val other = new TestRows(Seq(LongType, StringType), Seq(0))
      val store = provider.getStore(2, None)
      try
        checked(
          intercept[StreamJoinRuntimeException](on(store, other)),
          2,
          s"a segment of rows with ${rows.layout.fields} columns in place of ${other.layout.fields}"
        )
      finally store.abort()
    }
  }
}
