"""Windows events as collectors write them: one flat object, its names spelled as each provider likes."""

from __future__ import annotations

from tests.producers.made import Files, Maker, Producer, Record, at, iso, lines, parts, zipped


def _header(make: Maker, number: int, event_id: int) -> Record:
    return {
        "@timestamp": iso(number, make.digits(3)),
        "EventTime": at(number).strftime("%Y-%m-%d %H:%M:%S"),
        "Hostname": f"{make.word().upper()}.example.com",
        # A number as text, a name, or a number: each collector has its own way.
        "Keywords": ("0x8020000000000000", -9223372036854775808, "Audit Success")[number % 3],
        "Severity": "INFO",
        "SeverityValue": 2,
        "EventID": event_id,
        "Level": "0" if number % 2 else 4,
        "Task": 12544 if number % 4 else "None",
        "OpcodeValue": 0,
        "RecordNumber": 10_000_000 + number,
        "ExecutionProcessID": 4 * make.below(2_000),
        "ExecutionThreadID": make.below(9_000),
        "Version": number % 3,
        "tags": ["mordorDataset"],
        "port": 60_000 + number % 9,
    }


def _logon(make: Maker, number: int) -> Record:
    return _header(make, number, 4624) | {
        "Channel": "Security",
        "SourceName": "Microsoft-Windows-Security-Auditing",
        "SubjectUserSid": "S-1-5-18",
        "SubjectLogonId": "0x3e7",
        "TargetLogonId": f"0x{make.hex(6)}",
        "LogonType": str(number % 12) if number % 2 else number % 12,
        "LogonGuid": f"{{{make.uuid().upper()}}}",
        "ProcessId": f"0x{make.hex(3)}",
        "ProcessName": "C:\\Windows\\System32\\services.exe",
        "IpAddress": "-",
        "IpPort": "-" if number % 3 else str(make.below(65_536)),
        "KeyLength": "0",
    }


def _access(make: Maker, number: int) -> Record:
    """Sysmon: a GUID whose name ends in capitals."""
    return _header(make, number, 10) | {
        "Channel": "Microsoft-Windows-Sysmon/Operational",
        "SourceName": "Microsoft-Windows-Sysmon",
        "UtcTime": at(number).strftime("%Y-%m-%d %H:%M:%S.") + make.digits(3),
        "SourceProcessGUID": f"{{{make.uuid()}}}",
        "SourceProcessId": str(make.below(9_000)),
        "TargetProcessGUID": f"{{{make.uuid()}}}",
        "GrantedAccess": "0x1410",
        "CallTrace": "C:\\Windows\\SYSTEM32\\ntdll.dll+9c534|UNKNOWN(00000000023C55FA)",
        "LogonGuid": f"{{{make.uuid()}}}",
        "LogonId": f"0x{make.hex(5)}",
    }


def _process(make: Maker, number: int) -> Record:
    return _header(make, number, 1) | {
        "Channel": "Microsoft-Windows-Sysmon/Operational",
        "SourceName": "Microsoft-Windows-Sysmon",
        "SourceProcessGuid": f"{{{make.uuid()}}}",
        "ProcessID": make.below(9_000),
        "CommandLine": f'cmd.exe /c "echo {make.words()}" > \\\\.\\pipe\\{make.word()}',
        "LogonID": make.below(10**6),
        "Hashes": f"SHA1={make.hex(40).upper()},MD5={make.hex(32).upper()}",
        "TerminalSessionId": str(number % 3),
    }


def _firewall(make: Maker, number: int) -> Record:
    return _header(make, number, 5156) | {
        "Channel": "Security",
        "SourceName": "Microsoft-Windows-Security-Auditing",
        "SourceAddress": make.ip(),
        "SourcePort": str(make.below(65_536)),
        "DestPort": "443",
        "Protocol": "6" if number % 2 else 17,
        "FilterRTID": str(make.below(99_999)),
        "LayerName": "%%14611",
    }


_EVENTS = (_logon, _access, _process, _firewall)


def windows_events() -> Files:
    make = Maker("windows")
    records = [_EVENTS[number % 4](make, number // 4) for number in range(480)]
    for record in records[::7]:  # another collector, which spells the port as the event does
        record["Port"] = record.pop("port")
    first, second, third = parts(records, 3)
    return {
        "host1_2026-01-31225807.json": lines(first),
        "host2_2026-01-31225807.json": lines(second).replace(b"\n", b"\r\n"),
        "host3_2026-01-31225807.json.gz": zipped(lines(third)),
    }


PRODUCERS = (Producer(name="windows_events", files=windows_events),)
