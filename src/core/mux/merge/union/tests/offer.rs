//! What a member is told of the editor.

use super::*;

fn offered(params: &Value, init_options: Option<&Value>) -> Value {
    json::read(&super::super::offer(params.to_string().as_bytes(), "ruff", init_options)).unwrap()
}

#[test]
fn members_count_in_utf_16_and_register_nothing_that_is_merged() {
    let params = json!({"processId": 1, "capabilities": {
        "general": {"positionEncodings": ["utf-8", "utf-16"], "x": 1},
        "offsetEncoding": ["utf-8"],
        "textDocument": {
            "completion": {"dynamicRegistration": true, "contextSupport": true},
            "synchronization": {"dynamicRegistration": true},
            "diagnostic": {"dynamicRegistration": true},
            "hover": {"dynamicRegistration": false},
            "formatting": {},
            "own": {"dynamicRegistration": true},
        },
        "workspace": {
            "didChangeConfiguration": {"dynamicRegistration": true},
            "didChangeWatchedFiles": {"dynamicRegistration": true},
            "executeCommand": {"dynamicRegistration": true},
            "fileOperations": {"dynamicRegistration": true, "willRename": true},
            "symbol": {"dynamicRegistration": true},
            "workspaceFolders": true,
        },
        "notebookDocument": {"synchronization": {"dynamicRegistration": true}},
    }});
    let expected = json!({"processId": 1, "capabilities": {
        "general": {"positionEncodings": ["utf-16"], "x": 1},
        "offsetEncoding": ["utf-16"],
        "textDocument": {
            "completion": {"dynamicRegistration": false, "contextSupport": true},
            "synchronization": {"dynamicRegistration": false},
            "diagnostic": {"dynamicRegistration": true},
            "hover": {"dynamicRegistration": false},
            "formatting": {},
            "own": {"dynamicRegistration": true},
        },
        "workspace": {
            "didChangeConfiguration": {"dynamicRegistration": true},
            "didChangeWatchedFiles": {"dynamicRegistration": true},
            "executeCommand": {"dynamicRegistration": true},
            "fileOperations": {"dynamicRegistration": false, "willRename": true},
            "symbol": {"dynamicRegistration": false},
            "workspaceFolders": true,
        },
        "notebookDocument": {"synchronization": {"dynamicRegistration": false}},
    }});
    assert_eq!(offered(&params, None), expected);
}

#[test]
fn offer_changes_nothing_else() {
    let params = br#"{ "a" : 1e3, "capabilities":{} ,"initializationOptions": {"x":1.50} }"#;
    assert_eq!(super::super::offer(params, "ruff", None), params);
    assert_eq!(super::super::offer(b"null", "ruff", None), b"null");
}

#[test]
fn init_options_are_of_the_member() {
    let of = |options: Value, configured: Option<Value>| {
        let params = json!({"capabilities": {}, "initializationOptions": options});
        offered(&params, configured.as_ref()).get("initializationOptions").cloned()
    };
    let lspool = json!({"servers": {"ruff": {"own": 1}, "other": {"own": 2}}});
    assert_eq!(of(json!({"a": 1, "lspool": lspool}), None), Some(json!({"own": 1})));
    assert_eq!(of(json!({"a": 1, "lspool": {"servers": {}}}), None), Some(json!({"a": 1})));
    assert_eq!(of(json!("text"), None), Some(json!("text")));
    let over = json!({"a": {"c": [1]}, "d": {}, "e": {"f": 2}});
    let laid = of(json!({"a": {"b": 1, "c": [2, 3]}, "d": {"x": 1}, "e": 5}), Some(over.clone()));
    assert_eq!(laid, Some(json!({"a": {"b": 1, "c": [1]}, "d": {"x": 1}, "e": {"f": 2}})));
    assert_eq!(of(Value::Null, Some(over.clone())), Some(over.clone()));
    let absent = offered(&json!({"capabilities": {}}), None);
    assert_eq!(absent.get("initializationOptions"), None);
    let configured = offered(&json!({"capabilities": {}}), Some(&over));
    assert_eq!(configured["initializationOptions"], over);
}
