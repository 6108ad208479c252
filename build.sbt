import scala.io.Source

// `sbt -Dspark=4.3` builds for that Spark line.
val sparkLine = SparkLine.of(sys.props.getOrElse("spark", SparkLine.Default))

val streamjoinVersion = {
  val source = Source.fromFile("VERSION")
  try source.mkString.trim
  finally source.close()
}

ThisBuild / version := streamjoinVersion
ThisBuild / versionScheme := Some("early-semver")
ThisBuild / organization := Publisher.group
ThisBuild / organizationName := Publisher.organization
ThisBuild / licenses := Seq("Apache-2.0" -> url("https://www.apache.org/licenses/LICENSE-2.0"))
ThisBuild / homepage := Some(url(Publisher.source))
ThisBuild / scmInfo := Some(
  ScmInfo(
    url(Publisher.source),
    s"scm:git:${Publisher.source}.git"
  )
)
ThisBuild / developers := List(
  Developer(
    Publisher.organization,
    "the authors of streamjoin",
    "",
    url(Publisher.source.stripSuffix("/streamjoin"))
  )
)
// The output of `make release`, and the folder that sbt bundles and uploads (`sonaBundle`,
// `sonaRelease`).
Global / stagingDirectory := file(sys.props.getOrElse("streamjoin.dist", "dist")).getAbsoluteFile / "maven"
ThisBuild / scalaVersion := "2.13.18"
ThisBuild / semanticdbEnabled := true
ThisBuild / semanticdbVersion := "4.14.2"
ThisBuild / scalacOptions ++= Seq(
  "-release",
  "17",
  "-deprecation",
  "-feature",
  "-unchecked",
  "-Xlint:_",
  "-Wunused:imports,privates,locals,implicits,params",
  "-Wdead-code",
  "-Werror"
)

// Spark runs on a JDK 17 only with these packages opened (its own launcher scripts do the same).
val sparkJvmOptions = Seq(
  "java.lang",
  "java.lang.invoke",
  "java.lang.reflect",
  "java.io",
  "java.net",
  "java.nio",
  "java.util",
  "java.util.concurrent",
  "java.util.concurrent.atomic"
).map(p => s"--add-opens=java.base/$p=ALL-UNNAMED") ++ Seq(
  "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
  "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
  "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
  "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
  "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
  "-Djdk.reflect.useDirectMethodHandle=false",
  "-Dio.netty.tryReflectionSetAccessible=true",
  "-Xmx3g"
)

val tests = Seq(
  "org.scalatest" %% "scalatest" % "3.2.19" % Test,
  "org.scalatestplus" %% "scalacheck-1-18" % "3.2.19.0" % Test
)

// Spark's own SQL test files. They are not on the class path, where Spark would find its test
// classes.
val SparkTexts = config("sparkTexts").hide

// scalafix compiles without -Werror, so the next command would compile everything again.
val sameOptionsForScalafix = Seq(Compile, Test).map { config =>
  config / compile / scalacOptions := (config / scalacOptions).value
}

lazy val core = (project in file("scala/core")).settings(
  sameOptionsForScalafix,
  name := "streamjoin-core",
  libraryDependencies ++= tests
)

lazy val spark = (project in file("scala/spark"))
  .dependsOn(core % "compile->compile;test->test")
  .settings(
    sameOptionsForScalafix,
    // As on Maven: one artifact per Spark line.
    name := s"streamjoin-spark${sparkLine.name}",
    moduleName := name.value,
    libraryDependencies ++= Seq(
      // An in-memory catalog whose tables support MERGE.
      ("org.apache.spark" %% "spark-catalyst" % sparkLine.textsVersion % Test)
        .classifier("tests")
        .intransitive(),
      // An in-memory database for tests of upserts.
      "com.h2database" % "h2" % "2.3.232" % Test,
      ("org.apache.spark" %% "spark-sql" % sparkLine.textsVersion % SparkTexts)
        .classifier("tests")
        .intransitive()
    ) ++ sparkLine.modules(Provided) ++ tests,
    target := sparkLine.folder(baseDirectory.value / "target"),
    Compile / unmanagedJars ++= sparkLine.jars.classpath,
    Compile / unmanagedSourceDirectories ++= sparkLine.sources((Compile / sourceDirectory).value),
    Test / unmanagedSourceDirectories ++= sparkLine.sources((Test / sourceDirectory).value),
    // `make test-line` compiles only the tests that it runs: compiling the others would take most
    // of its time.
    Test / unmanagedSources := {
      val all = (Test / unmanagedSources).value
      if (sys.props.get("tests").contains("line")) all.filter(SparkLine.isTestedOnEachLine) else all
    },
    ivyConfigurations += SparkTexts,
    Test / fork := true,
    Test / javaOptions ++= sparkJvmOptions ++ sys.props.get("tests").map(some => s"-Dtests=$some"),
    // The suites have thousands of plans, many of them the same; Spark keeps the classes of 100.
    Test / javaOptions += "-Dspark.sql.codegen.cache.maxEntries=5000",
    Test / javaOptions += s"-Dstreamjoin.sparkTexts=${update.value.select(configurationFilter(SparkTexts.name)).head}",
    // Two JVMs, because a single one is idle more than half of the time. The suites of each run one
    // after another.
    Test / parallelExecution := true,
    Test / testForkedParallel := false,
    Test / testGrouping := {
      val options = (Test / forkOptions).value
      val suites = (Test / definedTests).value.sortBy(_.name).zipWithIndex
      (0 until 2).map { part =>
        val own = suites.collect { case (suite, number) if number % 2 == part => suite }
        Tests.Group(s"part $part", own, Tests.SubProcess(options))
      }
    },
    Test / testOptions += Tests.Argument(TestFrameworks.ScalaTest, "-oDT"),
    Test / baseDirectory := (ThisBuild / baseDirectory).value,
    Compile / resourceGenerators += Def.task {
      val file = (Compile / resourceManaged).value / "streamjoin" / "version.properties"
      IO.write(file, s"version=${version.value}\nspark=${sparkLine.version}\n")
      // Scala and Python share their data files, which are in a different folder in Python's source
      // distribution.
      val shared =
        Seq("error-conditions.json", "figures.json", "functions.json").map(name => s"streamjoin/$name")
      val folder = Seq("python/src", "src").find(new File(_, shared.head).exists).get
      val files = shared.map(file => s"$folder/$file" -> file) :+ ("LICENSE" -> "META-INF/LICENSE")
      val copies = files.map { case (from, to) =>
        IO.copyFile((ThisBuild / baseDirectory).value / from, (Compile / resourceManaged).value / to)
        (Compile / resourceManaged).value / to
      }
      file +: copies
    }.taskValue,
    // `make scaladoc`. Links to Spark's classes and to private ones are broken; this is not an
    // error.
    Compile / doc / scalacOptions ++= Seq(
      "-no-link-warnings",
      "-doc-title",
      "streamjoin",
      "-doc-version",
      version.value
    ),
    // One jar with only our own classes: Spark provides the rest.
    assembly / assemblyJarName := s"${moduleName.value}_${scalaBinaryVersion.value}-${version.value}.jar",
    assemblyPackageScala / assembleArtifact := false,
    // Do not rename the license.
    assembly / assemblyMergeStrategy := {
      case PathList("META-INF", "LICENSE") => MergeStrategy.singleOrError
      case path => (assembly / assemblyMergeStrategy).value(path)
    },
    assembly / assemblyExcludedJars := sparkLine.jars.classpath,
    assembly / test := {}
  )

// The published artifact of a line, with sources and Scaladoc, as a Maven repository: `make
// release`. The jar contains all of our classes, so its POM lists only Spark.
lazy val published = (project in file("scala/published")).settings(
  name := (spark / name).value,
  moduleName := (spark / moduleName).value,
  description := s"Joins of streams with bounded state, for Apache Spark ${sparkLine.name}",
  target := sparkLine.folder(baseDirectory.value / "target"),
  libraryDependencies ++= sparkLine.modules(Provided),
  // Spark provides it.
  autoScalaLibrary := false,
  Compile / packageBin := (spark / assembly).value,
  Compile / packageSrc / mappings :=
    (core / Compile / packageSrc / mappings).value ++ (spark / Compile / packageSrc / mappings).value,
  // Scaladoc includes fonts and scripts, so their licenses must be included too.
  Compile / packageDoc / mappings := (spark / Compile / packageDoc / mappings).value ++
    ((baseDirectory.value / "licenses" * "*").get :+ (ThisBuild / baseDirectory).value / "LICENSE")
      .map(file => file -> s"META-INF/${file.name}"),
  publishTo := localStaging.value,
  // Existing files are not overwritten: `make release` starts with an empty folder.
  publishConfiguration := publishConfiguration.value.withOverwrite(false)
)

// Benchmarks of the state engine alone: `make jmh`.
lazy val stateBenchmarks = (project in file("benchmarks/state"))
  .enablePlugins(JmhPlugin)
  .dependsOn(spark)
  .settings(
    name := "streamjoin-benchmarks",
    publish / skip := true,
    target := sparkLine.folder(baseDirectory.value / "target"),
    libraryDependencies ++= sparkLine.modules(Compile),
    Jmh / javaOptions ++= sparkJvmOptions
  )

// In place of sbt's own limit: one JVM with tests at a time.
Global / concurrentRestrictions := {
  val others =
    (Global / concurrentRestrictions).value.filterNot(_.toString.contains(Tags.ForkedTestGroup.name))
  others :+ Tags.limit(Tags.ForkedTestGroup, 2)
}

lazy val root = (project in file("."))
  .aggregate(core, spark, stateBenchmarks)
  .settings(name := "streamjoin-root", publish / skip := true)
