package org.apache.spark.sql.streamjoin.front.sql

import java.util.Locale

import org.antlr.v4.runtime.{CommonTokenStream, Token}

import org.apache.spark.sql.catalyst.parser.SqlBaseParser

/** The tokens of a text, without spaces and comments. */
final private[sql] class Tokens(all: IndexedSeq[Token]) {

  def apply(at: Int): Token = all(math.min(at, all.size - 1))

  def indices: Range = all.indices

  def slice(from: Int, until: Int): IndexedSeq[Token] = all.slice(from, until)

  /** In upper case. */
  def word(at: Int): String = apply(at).getText.toUpperCase(Locale.ROOT)

  def is(at: Int, words: String*): Boolean =
    words.zipWithIndex.forall { case (each, i) => word(at + i) == each }

  def isType(at: Int, types: Int*): Boolean = types.contains(apply(at).getType)

  /** Number of parentheses around each token. */
  val depth: IndexedSeq[Int] = {
    var open = 0
    all.map { token =>
      if (token.getType == SqlBaseParser.RIGHT_PAREN) open -= 1
      val depth = open
      if (token.getType == SqlBaseParser.LEFT_PAREN) open += 1
      depth
    }
  }

  private lazy val depthByIndex = all.map(_.getTokenIndex).zip(depth).toMap

  def depthOf(token: Token): Int = depthByIndex(token.getTokenIndex)

  /** The parenthesis that closes the one at a position, or the last token. */
  def closing(open: Int): Int =
    indices
      .find(at => at > open && depth(at) == depth(open) && isType(at, SqlBaseParser.RIGHT_PAREN))
      .getOrElse(all.size - 1)
}

private[sql] object Tokens {
  def of(stream: CommonTokenStream): Tokens = {
    stream.fill()
    new Tokens(
      (0 until stream.size()).map(stream.get).filter(_.getChannel == Token.DEFAULT_CHANNEL)
    )
  }
}
