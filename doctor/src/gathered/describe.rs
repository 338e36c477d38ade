// SPDX-License-Identifier: Apache-2.0
//! Pods and nodes as `kubectl describe` prints them, and the table of `kubectl get pods -A -o wide`.

use super::objects::{
    ContainerState, GatheredContainer, GatheredEvent, GatheredNode, GatheredPod, NOT_CREATED, Objects,
};
use super::{BundleFile, is_table};
use crate::symptoms::offer::gpus;
use std::collections::BTreeMap;

/// Adds the pods and nodes of such a file.
pub(crate) fn read(objects: &mut Objects, file: &BundleFile) {
    // `Name:` at a line's beginning opens each of them.
    let text = String::from_utf8_lossy(&file.bytes);
    if is_table(&file.bytes) {
        return table(objects, &text, &file.path);
    }
    if !text.starts_with("Name:") {
        return;
    }
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().chain(["Name:"]) {
        if line.starts_with("Name:") && !lines.is_empty() {
            one(objects, &lines, &file.path);
            lines.clear();
        }
        lines.push(line);
    }
}

/// Which node a pod is on. The columns begin where their heads do; a count of restarts has blanks in it.
fn table(objects: &mut Objects, text: &str, file: &str) {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let (Some(name), Some(node)) = (head.find("NAME "), head.find(" NODE ")) else { return };
    let word = |line: &str, at: usize| Some(line.get(at..)?.split_whitespace().next()?.to_owned());
    for line in lines {
        // Of one namespace, the table does not say which.
        let namespace = word(line, 0).filter(|_| name > 0).unwrap_or_default();
        let words = [word(line, name), word(line, node + 1)];
        let [Some(name), Some(node)] = words else { continue };
        let (file, uid) = (file.to_owned(), format!("{namespace}/{name}"));
        let node = Some(node).filter(|node| !node.starts_with('<'));
        objects.keep(GatheredPod { file, namespace, name, uid, node, ..GatheredPod::default() });
    }
}

fn one(objects: &mut Objects, lines: &[&str], file: &str) {
    let has = |key: &str| lines.iter().any(|line| line.starts_with(key));
    if has("Containers:") && has("Namespace:") {
        let pod = pod(lines, file);
        objects.events.extend(events(lines, &pod));
        objects.keep(pod);
    } else if has("Pod Template:") {
        objects.events.extend(events(lines, &pod(lines, file)));
    } else if has("System Info:") {
        objects.nodes.push(node(lines, file));
    }
}

/// The value behind a key with this indentation.
fn value<'a>(line: &'a str, indent: usize, key: &str) -> Option<&'a str> {
    let rest = line.get(indent..).filter(|_| line.bytes().take(indent).all(|byte| byte == b' '))?;
    rest.strip_prefix(key)?.strip_prefix(':').map(str::trim)
}

fn first(lines: &[&str], indent: usize, key: &str) -> Option<String> {
    let mut values = lines.iter().filter_map(|line| value(line, indent, key));
    values.next().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn pod(lines: &[&str], file: &str) -> GatheredPod {
    let namespace = first(lines, 0, "Namespace").unwrap_or_default();
    let name = first(lines, 0, "Name").unwrap_or_default();
    // `Node: NAME/ADDRESS`, or `<none>`.
    let node = first(lines, 0, "Node").and_then(|node| Some(node.split('/').next()?.to_owned()));
    let mut pod = GatheredPod {
        file: file.to_owned(),
        uid: format!("{namespace}/{name}"),
        node: node.filter(|node| !node.starts_with('<')),
        namespace,
        name,
        ..GatheredPod::default()
    };
    pod.refused = first(lines, 0, "Reason").zip(first(lines, 0, "Message"));
    let is_head = |line: &str| line == "Init Containers:" || line == "Containers:";
    let mut is_inside = false;
    for line in lines {
        let depth = line.bytes().take_while(|byte| *byte == b' ').count();
        match depth {
            0 => is_inside = is_head(line),
            2 if is_inside && line.ends_with(':') => {
                let name = line.trim().trim_end_matches(':').to_owned();
                pod.containers.push(GatheredContainer { name, ..GatheredContainer::default() });
            }
            _ => {
                if let Some(last) = pod.containers.last_mut().filter(|_| is_inside) {
                    detail(last, line);
                }
            }
        }
    }
    pod
}

fn detail(container: &mut GatheredContainer, line: &str) {
    if let Some(state) = value(line, 4, "State") {
        container.state = match state {
            "Waiting" => ContainerState::Waiting(String::new(), String::new()),
            "Running" => ContainerState::Running(None),
            "Terminated" => ContainerState::Terminated(-1),
            _ => ContainerState::Unknown,
        };
    } else if let Some(state) = value(line, 4, "Last State") {
        // What follows is of the instance before.
        container.has_started |= state.is_empty();
        container.image += "\0";
    } else if let Some(image) = value(line, 4, "Image") {
        image.clone_into(&mut container.image);
    } else if let Some(ready) = value(line, 4, "Ready") {
        container.is_ready = ready == "True";
        container.has_started = container.is_ready;
        container.image = container.image.trim_end_matches('\0').to_owned();
    } else if let Some(count) = value(line, 4, "Restart Count") {
        container.restarts = count.parse().ok();
    } else if !container.image.ends_with('\0') {
        of_state(&mut container.state, line);
    }
}

/// Lines below `State:`.
fn of_state(state: &mut ContainerState, line: &str) {
    let text = |key: &str| value(line, 6, key).map(str::to_owned);
    match state {
        ContainerState::Waiting(reason, _) if reason.is_empty() => {
            *reason = text("Reason").unwrap_or_default();
        }
        ContainerState::Waiting(_, message) if message.is_empty() => {
            *message = text("Message").unwrap_or_default();
        }
        ContainerState::Terminated(code) if *code == -1 => {
            *code = text("Exit Code").and_then(|text| text.parse().ok()).unwrap_or(-1);
        }
        _ => {}
    }
}

/// The table `Type Reason Age From Message`: columns with at least two blanks between them.
fn events(lines: &[&str], pod: &GatheredPod) -> Vec<GatheredEvent> {
    let table = lines.iter().skip_while(|line| !line.starts_with("Events:")).skip(3);
    let columns = |line: &&&str| -> Option<GatheredEvent> {
        let mut columns = line.trim().split("  ").map(str::trim).filter(|column| !column.is_empty());
        let (_, reason, age, from) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
        let message = columns.collect::<Vec<_>>().join("  ");
        (from == "kubelet" || reason == NOT_CREATED).then(|| GatheredEvent {
            file: pod.file.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            reason: reason.to_owned(),
            message,
            ago: ago(age),
            count: count(age),
            ..GatheredEvent::default()
        })
    };
    table.filter_map(|line| columns(&line)).collect()
}

/// `2m13s`, `2m (x12 over 25m)`, `<unknown>`: in seconds.
fn ago(age: &str) -> Option<i64> {
    let age = humantime::parse_duration(age.split_whitespace().next()?).ok()?;
    age.as_secs().try_into().ok()
}

/// `2m (x12 over 25m)`: 12.
fn count(age: &str) -> u64 {
    let often = age.split_once("(x").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    often.unwrap_or(1)
}

fn node(lines: &[&str], file: &str) -> GatheredNode {
    // The first label is behind the key, the others below it.
    let below = lines.iter().skip_while(|line| !line.starts_with("Labels:"));
    let of_labels = below.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    let label = |(_, line): (usize, &&str)| {
        let (name, value) = line.trim_start_matches("Labels:").trim().split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let count = |head: &str| {
        let below = lines.iter().skip_while(|line| !line.starts_with(head)).skip(1);
        gpus(below.take_while(|line| line.starts_with(' ')).filter_map(|line| line.trim().split_once(':')))
    };
    GatheredNode {
        offered: count("Capacity:").zip(count("Allocatable:")),
        file: file.to_owned(),
        name: first(lines, 0, "Name").unwrap_or_default(),
        kernel: first(lines, 2, "Kernel Version"),
        arch: first(lines, 2, "Architecture"),
        boot_id: first(lines, 2, "Boot ID"),
        image: first(lines, 2, "OS Image"),
        labels: of_labels.filter_map(label).collect::<BTreeMap<_, _>>(),
    }
}
