"""Installs dyno into a folder of its own and uses it as a stranger would: pkg-config says how to
build the examples, which run with both libraries and lose no memory; nothing but dyno.h is seen."""
import os
import re
import subprocess
import tempfile

from cases import ROOT, run_all, write_file

BUILD = os.environ["DYNO_BUILD"]
SANITIZE = os.environ.get("DYNO_SANITIZE", "")
PREFIX = tempfile.TemporaryDirectory()


def call(*command, code=0, **more):
    result = subprocess.run(command, text=True, stdin=subprocess.DEVNULL, capture_output=True,
                            check=False, env={**os.environ, **more})
    assert result.returncode == code, (command, result.stdout, result.stderr)
    return result.stdout


def installed(*parts):
    return os.path.join(PREFIX.name, *parts)


def pkg_config(*flags):
    return call("pkg-config", *flags, "dyno",
                PKG_CONFIG_PATH=installed("lib", "pkgconfig")).split()


def build(source, *flags, static=False):
    """The program; it finds the shared library where that was installed."""
    program = installed("static-" * static + os.path.basename(source).removesuffix(".c"))
    libraries = pkg_config("--libs", *["--static"] * static)
    if static: # the archive that was installed, and of the system what there is
        libraries = [installed("lib", "libdyno.a") if flag == "-ldyno" else flag
                     for flag in libraries]
    # The leak sanitizer needs no code of its own in the library; others are in it already.
    sanitizer = f"-fsanitize={SANITIZE or 'leak'}"
    call("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", sanitizer, *flags,
         *pkg_config("--cflags"), source, "-o", program, *libraries,
         "-Wl,-rpath," + installed("lib"))
    return program


def example(name, static=False):
    return build(os.path.join(ROOT, "examples", name + ".c"), static=static)


def what_fits_is_planned():
    printed = call(example("plan_what_fits"), "150")
    assert re.search(r"^small .* fits$", printed, re.M), printed
    assert re.search(r"^10B .* does not fit: --recompute", printed, re.M), printed
    program = example("plan_what_fits", static=True)
    assert call(program, "1000", "h200").count(" fits\n") == 6
    call(program, "1", "z80", code=1)


def a_model_is_trained_on_tokens():
    tokens, model = installed("tokens.bin"), installed("model")
    with open(tokens, "wb") as file:
        file.write(bytes(i // 2 % 50 if i % 2 == 0 else 0 for i in range(2000)))
    for static in (False, True):
        program = example("train_on_tokens", static)
        printed = call(program)
        first = float(re.search(r"step  0  loss ([\d.]+)", printed)[1])
        assert float(re.search(r"loss is ([\d.]+)", printed)[1]) < first / 2, printed
        assert "after 40 steps" in call(program, tokens, model)
        assert os.path.exists(os.path.join(model, "model.safetensors"))
        call(program, installed("nothing"), code=1)


def two_shapes_are_timed():
    printed = call(example("bench_two_shapes"))
    assert printed.count("| mean ms |") == 2 and "(stopped)" not in printed, printed
    printed = call(example("bench_two_shapes", static=True), "0")
    assert printed.count("(stopped)") == 2 and "incomplete" in printed, printed


def declared():
    """The functions of dyno.h: a name before a parenthesis, outside comments."""
    with open(installed("include", "dyno.h"), encoding="utf-8") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    return set(re.findall(r"\b(dyno_\w+)\(", text))


def manual_pages_are_installed():
    pages = os.listdir(installed("share", "man", "man1"))
    assert {"dyno.1", "dyno-bench.1", "dyno-man.1"} <= set(pages), pages
    with open(installed("share", "man", "man1", "dyno.1"), encoding="utf-8") as page:
        text = page.read()
    for name in pages:
        assert name == "dyno.1" or name.removesuffix(".1").replace("-", "\\-") in text, name


def the_shared_library_exports_what_its_header_declares():
    listed = call("nm", "-D", "--defined-only", installed("lib", "libdyno.so"))
    exported = {line.split()[-1] for line in listed.splitlines()}
    assert exported == declared(), exported ^ declared()
    assert len(exported) > 50


def the_archive_exports_what_its_header_declares():
    listed = call("nm", "-g", "--defined-only", installed("lib", "libdyno.a"))
    exported = {line.split()[2] for line in listed.splitlines() if len(line.split()) == 3}
    assert exported == declared(), exported ^ declared()


def the_header_is_c_and_cpp():
    for compiler, language, standard in (("cc", "c", "c99"), ("c++", "c++", "c++11")):
        if subprocess.run(["which", compiler], capture_output=True, check=False).returncode == 0:
            source = installed("header." + language)
            write_file(source, "#include <dyno.h>\n")
            call(compiler, "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-pedantic",
                 "-Werror", "-fsyntax-only", *pkg_config("--cflags"), source)


with PREFIX:
    call("cmake", "--install", BUILD, "--prefix", PREFIX.name)
    run_all(what_fits_is_planned, a_model_is_trained_on_tokens, two_shapes_are_timed, manual_pages_are_installed,
            the_shared_library_exports_what_its_header_declares,
            the_archive_exports_what_its_header_declares, the_header_is_c_and_cpp)
