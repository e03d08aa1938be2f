# SPDX-License-Identifier: Apache-2.0
"""Names of s2n-tls' codes. The numbers of its errors differ from release to release: their names are those that its own
function gives them, evaluated."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency import abi
from ssllatency.code.evaluate import returned
from ssllatency.elf.image import Image
from ssllatency.stacks.names import ALERTS, GROUPS, Names, own_reasons

_LIBRARY = abi.Error.LIBRARY_S2N
_TYPES = range(4, 8)  # s2n_error_type, of which a handshake's failure may be: an alert, the protocol, the library, its use
_ERROR_BITS, _REASON_BITS = 26, 8  # where the type lies in an error, and in the kernel side's reason
_ALERT_REASONS = 2048  # of the kernel side: an alert that was received, from this number on
_MOST_ERRORS = (1 << _REASON_BITS) - 1
_PREFIX = "S2N_ERR_"
# As s2n_connection_get_cipher names the suites, which are OpenSSL's names; the numbers are those of IANA's registry.
_CIPHERS = {
    0x03000004: "RC4-MD5",
    0x03000005: "RC4-SHA",
    0x0300000A: "DES-CBC3-SHA",
    0x03000016: "DHE-RSA-DES-CBC3-SHA",
    0x0300002F: "AES128-SHA",
    0x03000033: "DHE-RSA-AES128-SHA",
    0x03000035: "AES256-SHA",
    0x03000039: "DHE-RSA-AES256-SHA",
    0x0300003C: "AES128-SHA256",
    0x0300003D: "AES256-SHA256",
    0x03000067: "DHE-RSA-AES128-SHA256",
    0x0300006B: "DHE-RSA-AES256-SHA256",
    0x0300009C: "AES128-GCM-SHA256",
    0x0300009D: "AES256-GCM-SHA384",
    0x0300009E: "DHE-RSA-AES128-GCM-SHA256",
    0x0300009F: "DHE-RSA-AES256-GCM-SHA384",
    0x03001301: "TLS_AES_128_GCM_SHA256",
    0x03001302: "TLS_AES_256_GCM_SHA384",
    0x03001303: "TLS_CHACHA20_POLY1305_SHA256",
    0x0300C009: "ECDHE-ECDSA-AES128-SHA",
    0x0300C00A: "ECDHE-ECDSA-AES256-SHA",
    0x0300C011: "ECDHE-RSA-RC4-SHA",
    0x0300C012: "ECDHE-RSA-DES-CBC3-SHA",
    0x0300C013: "ECDHE-RSA-AES128-SHA",
    0x0300C014: "ECDHE-RSA-AES256-SHA",
    0x0300C023: "ECDHE-ECDSA-AES128-SHA256",
    0x0300C024: "ECDHE-ECDSA-AES256-SHA384",
    0x0300C027: "ECDHE-RSA-AES128-SHA256",
    0x0300C028: "ECDHE-RSA-AES256-SHA384",
    0x0300C02B: "ECDHE-ECDSA-AES128-GCM-SHA256",
    0x0300C02C: "ECDHE-ECDSA-AES256-GCM-SHA384",
    0x0300C02F: "ECDHE-RSA-AES128-GCM-SHA256",
    0x0300C030: "ECDHE-RSA-AES256-GCM-SHA384",
    0x0300CCA8: "ECDHE-RSA-CHACHA20-POLY1305",
    0x0300CCA9: "ECDHE-ECDSA-CHACHA20-POLY1305",
    0x0300CCAA: "DHE-RSA-CHACHA20-POLY1305",
}


def names(image: Image) -> Names:
    """The names of its codes, as far as the image's s2n_strerror_name gives them."""
    return Names(
        reasons=own_reasons(_LIBRARY, dict(_errors(image)), ALERTS, _ALERT_REASONS),
        libraries={_LIBRARY: "s2n-tls"},
        alerts=ALERTS,
        ciphers=_CIPHERS,
        groups=GROUPS,
        major=1,
        ssl=_LIBRARY,
        alert_reasons=_ALERT_REASONS,
    )


def _errors(image: Image) -> Iterator[tuple[int, str]]:
    """The reasons and their names."""
    function = image.function("s2n_strerror_name")
    for kind in _TYPES if function else ():
        for number in range(_MOST_ERRORS):
            name = _name(image, function.address, kind << _ERROR_BITS | number) if function else ""
            if number and not name:  # they have no gaps but for the first one, of which some types have no name
                break
            if name:
                yield kind << _REASON_BITS | number, name


def _name(image: Image, function: int, error: int) -> str:
    values = returned(image, function, rdi=error)
    text = image.text(values[0]) if len(values) == 1 and isinstance(values[0], int) else ""
    return text.removeprefix(_PREFIX).lower().replace("_", " ") if text.startswith(_PREFIX) else ""
