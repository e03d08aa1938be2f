# SPDX-License-Identifier: Apache-2.0
"""What a guest boots from: a root of Debian 12 or 13, an initrd that finds it, the checkout, the kernel's headers.

A root is unpacked from packages rather than installed: no program of it runs here, so that a guest may be of another
architecture, and it takes no root's rights. What the packages' scripts would have done for the few programs that the guest
runs, `_finish` does.
"""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kernels.debian import TOP, SetupError, Suite, run, unpack
from tests.kernels.machine import native_architecture

GUEST = Path(__file__).resolve().parent / "guest"
# What the README has one install for running from a checkout, but for the compiler: the objects are compiled here. Then the
# other engines, what the checks run, and the base of any Debian.
ROOT_PACKAGES = (
    *("libbpf1", "python3", "nginx-light", "openssl"),
    *("python3-bpfcc", "bpftrace"),
    *("apache2-utils", "nghttp2-client", "procps", "iproute2", "kmod", "util-linux", "mount"),
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "sed", "tar"),
)
_ROOT_MIB = 1400
_HEADERS_MIB = 300
_CHECKOUT_MIB = 200
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# What a virtio disk needs, and whoever has the kernel encrypt what a connection sends (the latter by AES-GCM).
MODULES = ("virtio_pci", "virtio_blk", "ext4", "tls", "aes_generic", "ctr", "ghash-generic", "gcm")
_GO_PROGRAMS = {"amd64": "1.27.3-amd64-pie", "arm64": "local-arm64"}  # of those that tools/for-tests/setup-go builds


def make_root(suite: Suite, folder: Path) -> Path:
    """FOLDER/root-SUITE.ext4, and FOLDER/busybox for initrds; made anew where it is made of other packages now."""
    image, made_of = folder / f"root-{suite.name}.ext4", " ".join((suite.name, *ROOT_PACKAGES))
    stamp = image.with_suffix(".made-of")
    if image.exists() and stamp.exists() and stamp.read_text() == made_of:
        return image
    print(f"==> making a Debian root of {suite.name} for {suite.architecture}", flush=True)
    root = folder / f"root-{suite.name}"
    shutil.rmtree(root, ignore_errors=True)
    _merge_usr(root)
    for archive in suite.fetch_all(ROOT_PACKAGES):
        unpack(archive, root)
    _finish(root)
    _busybox(suite, folder)
    make_ext4(root, image, _ROOT_MIB)
    shutil.rmtree(root)
    stamp.write_text(made_of)
    return image


def _merge_usr(root: Path) -> None:
    """The links by which /bin, /lib and /sbin are those of /usr, which debootstrap makes, not a package."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def _finish(root: Path) -> None:
    """Users, places to mount at, and Python's modules compiled, which takes an emulated processor long."""
    for name in ("passwd", "group"):
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    for name in ("proc", "sys", "dev", "run", "tmp", "checkout", "root"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for name in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(root / name, ignore_errors=True)
    for folder in ("usr/lib/python3.11", "usr/lib/python3/dist-packages/bcc"):
        compile_python(root / folder, root)


def compile_python(folder: Path, root: Path) -> None:
    """Compiles modules as Debian 12's interpreter would, where this machine has it; another root compiles them in the guest."""
    interpreter = shutil.which("python3.11")
    if interpreter and folder.exists():
        run(interpreter, "-m", "compileall", "-q", "-j", "0", "-s", root, "-p", "/", "-x", "lib2to3|/test/", folder)


def _busybox(suite: Suite, folder: Path) -> None:
    unpacked = folder / "busybox.unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    for archive in suite.fetch(["busybox-static"]):
        unpack(archive, unpacked)
    (program,) = (
        path for path in unpacked.rglob("busybox") if path.parent.name == "bin"
    )  # in /bin, from Debian 13 on in /usr/bin
    shutil.move(program, folder / "busybox")
    shutil.rmtree(unpacked)


def make_site(architecture: str, folder: Path) -> Path:
    """FOLDER/site: the PyPI packages that ssllatency depends on, for that architecture."""
    requirements = TOP / "requirements" / "run.txt"
    needed = requirements.read_text()
    site, stamp = folder / "site", folder / "site.made-of"
    if site.exists() and stamp.exists() and stamp.read_text() == needed:
        return site
    print(f"==> fetching what ssllatency needs of Python for {architecture}", flush=True)
    shutil.rmtree(site, ignore_errors=True)
    machine = _MACHINES[architecture]
    platforms = [w for name in ("manylinux1", "manylinux2014", "manylinux_2_28") for w in ("--platform", f"{name}_{machine}")]
    pip = (TOP / "build/venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile")
    locked = ("--require-hashes", "--only-binary=:all:", "--requirement", requirements)
    run(*pip, *locked, "--python-version=3.11", *platforms, "--target", site)
    stamp.write_text(needed)
    return site


def make_initrd(kernel: Path, busybox: Path, initrd: Path) -> None:
    """An initrd with busybox and MODULES; `kernel` is the folder of the unpacked packages."""
    staged = initrd.with_suffix(".staged")
    shutil.rmtree(staged, ignore_errors=True)
    for name in ("bin", "dev", "proc", "sys", "new", "modules"):
        (staged / name).mkdir(parents=True)
    shutil.copy(busybox, staged / "bin" / "busybox")
    (staged / "bin" / "sh").symlink_to("busybox")
    for number, module in enumerate(_modules(kernel, MODULES)):
        name = module.name.partition(".ko")[0]
        (staged / "modules" / f"{number:02}-{name}.ko").write_bytes(_decompressed(module))
    shutil.copy(GUEST / "initrd-init", staged / "init")
    (staged / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(staged)) for path in sorted(staged.rglob("*")))
    packed = subprocess.run(
        ["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], cwd=staged, input=names.encode(), capture_output=True, check=False
    )
    if packed.returncode:
        raise SetupError(f"cpio failed: {packed.stderr.decode().strip()}")
    initrd.write_bytes(gzip.compress(packed.stdout, 1))
    shutil.rmtree(staged)


def _modules(kernel: Path, wanted: Sequence[str]) -> list[Path]:
    """The files of these modules and of what they depend on, in the order of loading; none of what is built in."""
    base = kernel / "usr" if (kernel / "usr/lib/modules").exists() else kernel
    (modules,) = (base / "lib/modules").iterdir()
    run("/sbin/depmod", "-b", base, modules.name)
    return [modules / path for path in load_order((modules / "modules.dep").read_text(), wanted)]


def load_order(dependencies: str, wanted: Sequence[str]) -> list[str]:
    """The paths in a modules.dep of these modules, each after those that it depends on; the file has them in reverse."""
    lines = (line.split(":") for line in dependencies.splitlines())
    needed = {Path(path).name.partition(".ko")[0]: [*reversed(others.split()), path] for path, others in lines}
    return list(dict.fromkeys(path for name in wanted for path in needed.get(name, ())))


def _decompressed(module: Path) -> bytes:
    if module.suffix == ".xz":
        return lzma.decompress(module.read_bytes())
    if module.suffix == ".zst":
        return subprocess.run(["zstd", "-qdc", module], capture_output=True, check=True).stdout
    return module.read_bytes()


def make_headers(archives: Sequence[Path], image: Path) -> None:
    """What the packages of a kernel's headers lay below /usr/src, from which bcc compiles in the guest."""
    staged = image.with_suffix(".staged")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    for archive in archives:
        unpack(archive, staged)
    make_ext4(staged / "usr/src", image, _HEADERS_MIB)
    shutil.rmtree(staged)


def make_checkout(architecture: str, site: Path, image: Path) -> None:
    """The checkout as it is now, with the objects that are compiled for that architecture and an environment for the guest's
    Python."""
    staged = image.with_suffix(".staged")
    shutil.rmtree(staged, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "recorded")
    for name in ("python", "tools", "tests", "bpf"):
        shutil.copytree(TOP / name, staged / name, ignore=ignored)
    environment = staged / "build" / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to("/usr/bin/python3")
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    shutil.copytree(site, environment / "lib/python3.11/site-packages", ignore=ignored)
    (environment / "lib/python3.13").symlink_to("python3.11")  # Debian 13's; no package depends on the version
    if architecture == native_architecture():
        _compile_private_stack(staged / "tests/kernels/private_stack")
    run("make", "bpf-all")
    for compiled in (TOP / "build" / _MACHINES[architecture]).glob("*.bpf.o"):
        shutil.copy(compiled, staged / "build")
    program = TOP / "build" / "go" / _GO_PROGRAMS[architecture]
    if program.is_file():
        shutil.copy(program, staged / "build" / "go-program")
    for name in ("python", "tests/kernels", "tests/live", "tests/bpf", "build/venv/lib"):
        compile_python(staged / name, staged)
    make_ext4(staged, image, _CHECKOUT_MIB)
    shutil.rmtree(staged)


def _compile_private_stack(folder: Path) -> None:
    """Compiles the program that shows how private stacks are overwritten, by the commands that its source gives."""
    source = (folder / "private_stack.c").read_text()
    for command in re.findall(r"^ \*   ((?:clang|cc) .*)$", source, re.MULTILINE):
        run("sh", "-c", command, cwd=folder)


def make_ext4(folder: Path, image: Path, size_mib: int) -> None:
    """An image of a file system with what the folder holds; everything in it is root's."""
    partial = image.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    run("/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0", "-d", folder, partial, f"{size_mib}M")
    partial.replace(image)
