//! `[lsp_tools]` in workspace files.

use expect_test::expect;

use super::{check_workspace_problems, workspace};

#[test]
fn workspace_file_only_limits_code_tools() {
    let (config, _) = workspace("", "[lsp_tools]\nenabled = false\nmax_output = \"1KiB\"\n").unwrap();
    assert_eq!((config.lsp_tools.enabled, config.lsp_tools.max_output), (false, 1 << 10));
    check_workspace_problems(
        "[lsp_tools]\nenabled = false\n",
        "[lsp_tools]\nenabled = true\nraw = true\noffer = [\"all\"]\nmax_results = 51\nsettle = \"0s\"\non_loading = \"error\"\n",
        &expect![[r#"
            .lspool.toml:2: `lsp_tools.enabled`: a workspace file can only turn this off
            .lspool.toml:3: `lsp_tools.raw`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:4: `lsp_tools.offer`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:5: `lsp_tools.max_results`: expected at most 50, found 51: a workspace file can only lower a limit
            .lspool.toml:6: `lsp_tools.settle`: a workspace file cannot set this key; set it in your own configuration file
            .lspool.toml:7: `lsp_tools.on_loading`: a workspace file cannot set this key; set it in your own configuration file"#]],
    );
}
