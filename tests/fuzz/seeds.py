# SPDX-License-Identifier: Apache-2.0
"""Small made files to begin with: libraries whose functions are named in each way there is, a debug file, kept plans."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from ssllatency.elf.image import Image
from ssllatency.facts import FileFacts
from ssllatency.probes import codec
from ssllatency.probes.cache import names as names_codec
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.openssl.names.library import names
from tests.fixtures import build, hostile
from tests.fixtures.assembled import assemble, function

TOOLS = ("gcc", "strip", "nm")

# One page for all: what a fuzzer changes is seldom padding.
_SMALL = ("-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,--hash-style=gnu")
_PLAIN = "push %rbx\nmov %rdi,%rbx\ncall other@PLT\npop %rbx\nret\n"
_BRANCHES = """
    push %rbx
    test %rdi,%rdi
    je 1f
    call EVP_DigestSign@PLT
    test %eax,%eax
    je 1f
    xor %eax,%eax
1:  pop %rbx
    ret
"""
_TABLE = """
    cmp $3,%edi
    ja 9f
    lea 1f(%rip),%rdx
    movslq (%rdx,%rdi,4),%rax
    add %rdx,%rax
    jmp *%rax
9:  xor %eax,%eax
    ret
1:  .long 9b-1b, 9b-1b, 9b-1b, 9b-1b
"""
_LIBSSL = function("SSL_do_handshake", _PLAIN) + function("SSL_read", _BRANCHES) + function("SSL_write", _TABLE)
_LIBCRYPTO = "".join(function(name, _BRANCHES) for name in ("EVP_DigestSign", "RSA_sign", "ERR_vset_error", "hidden"))


def libraries(folder: Path) -> list[bytes]:
    """Libraries, with symbol table and without, and without section headers; and stripped ones with OpenSSL's tables."""
    made = [assemble(folder, text, name, *_SMALL).path for name, text in (("ssl", _LIBSSL), ("crypto", _LIBCRYPTO))]
    bare = [build.stripped(path, f"{path.stem}-stripped.so") for path in made]
    headless = [build.without_section_headers(path, f"{path.stem}-headless.so") for path in bare]
    return [path.read_bytes() for path in (*made, *bare, *headless, *_with_tables(folder))]


def _with_tables(folder: Path) -> list[Path]:
    """Of methods, of providers, of names; and with functions whose fields are followed."""
    found = []
    for name in ("methods", "provider", "names", "accessors", "labels"):
        path = build.library(folder, f"lib{name}.so", [f"{name}.c"], *_SMALL, "-nostdlib", "-g0")
        found.append(build.stripped(path, f"{path.stem}-stripped.so"))
    return found


def unnamed(folder: Path) -> list[bytes]:
    """Stripped libraries whose functions are known by the errors that they raise, compiled in two ways."""
    found = []
    for style in ("-O2", "-Os"):
        path = build.library(folder, f"libunnamed{style}.so", ["unnamed.c"], *_SMALL, "-nostdlib", "-g0", style)
        found.append(build.stripped(path, f"{path.stem}-stripped.so"))
    return [path.read_bytes() for path in (*found, build.without_section_headers(found[0], "unnamed-headless.so"))]


def unnamed_openssl(folder: Path) -> list[bytes]:
    """The same of an OpenSSL 3, compiled in two ways."""
    found = []
    for style in ("-O2", "-Os"):
        path = build.library(folder, f"libnames{style}.so", ["openssl_names.c"], *_SMALL, "-nostdlib", "-g0", style)
        found.append(build.stripped(path, f"{path.stem}-stripped.so"))
    return [path.read_bytes() for path in found]


def rust(folder: Path) -> list[bytes]:
    """A stripped library with what tells the functions of rustls and ring."""
    path = build.library(folder, "librust.so", ["rustls_ring.c"], *_SMALL, "-nostdlib", "-g0")
    return [build.stripped(path, "rust-stripped.so").read_bytes()]


def stripped_library(folder: Path) -> tuple[bytes, bytes]:
    """A stripped libcrypto, and the debug file that names a function of it."""
    made = assemble(folder, _LIBCRYPTO.replace(".globl hidden\n", ""), "split", *_SMALL)
    bare = build.stripped(made.path, "split-stripped.so")
    functions = [(name, made.symbols["hidden"] + more, 40) for more, name in enumerate(("ecx_derive", "ml_kem_decapsulate"))]
    return bare.read_bytes(), hostile.debug_file(folder / "debug", Image.open(bare).build_id, functions).read_bytes()


def kept(folder: Path) -> list[bytes]:
    """Plans, names and what is in a file, as they are kept."""
    path = assemble(folder, _LIBSSL + _LIBCRYPTO, "both").path
    image = Image.open(path)
    with_names = Image.open(build.library(folder, "libnames.so", ["names.c"]))
    values = (
        codec.to_values(replace(plan_image(image), handshake=plan_handshake(image))),
        codec.handshake_values(plan_handshake(image)),
        names_codec.to_values(names(with_names)),
        asdict(FileFacts(("libssl",), "OpenSSL 3.0", "aa", (("rustls", "0.23"),), "it is damaged", by_debug_file=True)),
    )
    return [json.dumps(each).encode() for each in values]
