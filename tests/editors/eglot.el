;;; What a user's init file says, and then what a user does.  -*- lexical-binding: t -*-
;; Prints one line of JSON. The command of the server is in $LSPOOL_COMMAND, words separated by newlines.

(require 'package)
(package-initialize)
(require 'eglot)
(require 'json)

(add-to-list 'eglot-server-programs
             (cons 'python-mode (split-string (getenv "LSPOOL_COMMAND") "\n")))
(setq eglot-sync-connect 40
      eglot-connect-timeout 40
      eglot-report-progress nil)

(defun lspool-wait (condition)
  "Wait until CONDITION returns non-nil; return that."
  (let ((deadline (+ (float-time) 40)) found)
    (while (and (not (setq found (funcall condition))) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    found))

(defun lspool-ask (method)
  "The answer to METHOD about the place of point."
  (jsonrpc-request (eglot-current-server) method (eglot--TextDocumentPositionParams) :timeout 40))

(find-file "greeting.py")
(python-mode)
(call-interactively #'eglot)
(lspool-wait #'flymake-diagnostics)
(goto-char (point-min))
(search-forward "greet(os")
(goto-char (match-beginning 0))
(let* ((diagnostics (mapcar #'flymake-diagnostic-text (flymake-diagnostics)))
       (hover (lspool-ask :textDocument/hover))
       (definition (xref-backend-definitions 'eglot (xref-backend-identifier-at-point 'eglot)))
       (line (xref-location-line (xref-item-location (car definition))))
       (completion (progn
                     (goto-char (point-max))
                     (insert "os.getc")
                     (eglot--signal-textDocument/didChange)
                     (lspool-ask :textDocument/completion))))
  (princ (json-encode
          `((diagnostics . ,(vconcat diagnostics))
            (hover . ,(plist-get (plist-get hover :contents) :value))
            (line . ,line)
            (completion . ,(vconcat (mapcar (lambda (it) (plist-get it :label))
                                            (or (plist-get completion :items) completion)))))))
  (terpri))
(set-buffer-modified-p nil)
(eglot-shutdown (eglot-current-server))
